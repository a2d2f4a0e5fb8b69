// A short word at the edge of the page that goes by itself.

import { announce, h } from "../lib/dom.js";

const SHOWN_MS = 3500;

/** Shows a text for a moment. */
export function toast(text) {
  const box = document.querySelector(".toasts") ?? document.body.appendChild(h("div.toasts"));
  const element = h("div.toast", null, text);
  box.append(element);
  announce(text);
  setTimeout(() => element.remove(), SHOWN_MS);
}
