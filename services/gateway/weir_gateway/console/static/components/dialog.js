// Dialogs: the browser's own, which keep the focus inside and give it back.

import { h } from "../lib/dom.js";
import { icon } from "../lib/icons.js";

/** Opens a dialog with a close button; returns it. It is removed when it closes. */
export function openDialog(title, body, buttons = []) {
  const id = `dialog-${crypto.randomUUID?.() ?? Math.random()}`;
  const dialog = h(
    "dialog",
    { "aria-labelledby": id },
    h(
      "header",
      null,
      h("h2", { id }, title),
      h(
        "button.icon-button",
        { type: "button", "aria-label": "Close", onclick: () => dialog.close() },
        icon("close"),
      ),
    ),
    h("div.body", { tabIndex: 0 }, body),
    buttons.length ? h("footer", null, buttons) : null,
  );
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

/**
 * Asks before something is done.
 *
 * @returns {Promise<boolean>} whether it was confirmed
 */
export function confirmed(title, body, yes, danger = false) {
  return new Promise((resolve) => {
    let answer = false;
    const cancel = h(
      "button.button",
      { type: "button", autofocus: true, onclick: () => dialog.close() },
      "Cancel",
    );
    const go = h(
      "button.button",
      {
        type: "button",
        class: danger ? "danger" : "primary",
        onclick: () => {
          answer = true;
          dialog.close();
        },
      },
      yes,
    );
    const dialog = openDialog(title, body, [cancel, go]);
    dialog.addEventListener("close", () => resolve(answer));
  });
}
