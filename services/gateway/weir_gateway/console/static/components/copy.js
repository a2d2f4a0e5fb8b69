// A text to copy with one press.

import { announce, h } from "../lib/dom.js";
import { icon } from "../lib/icons.js";
import { toast } from "./toast.js";

/** Puts a text on the clipboard and says so. */
export async function copyText(text, what) {
  try {
    await navigator.clipboard.writeText(text);
    toast(`${what} copied`);
  } catch {
    toast(`The browser forbids copying here; select the text instead.`);
  }
  announce(`${what} copied`);
}

/** The text itself as a button that copies it. */
export function copyable(text, what) {
  return h(
    "button.copy",
    {
      type: "button",
      title: `Copy ${what}`,
      "aria-label": `Copy ${what} ${text}`,
      onclick: (event) => {
        event.stopPropagation();
        copyText(text, what);
      },
    },
    h("span.mono", null, text),
    icon("copy"),
  );
}

/** A button that copies what `text()` gives. */
export function copyButton(label, text, what = label) {
  return h(
    "button.button.small",
    { type: "button", onclick: () => copyText(text(), what) },
    icon("copy"),
    label,
  );
}
