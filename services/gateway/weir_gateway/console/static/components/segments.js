// One of a few: buttons in a row, of which one is pressed.

import { h } from "../lib/dom.js";

/**
 * A choice.
 *
 * @param {string} label what is chosen
 * @param {string[][]} options `[value, text]` of each
 * @param {string} value the chosen one
 * @param {(value: string) => void} onChoose
 */
export function segments(label, options, value, onChoose) {
  const buttons = options.map(([option, text]) =>
    h(
      "button",
      {
        type: "button",
        "aria-pressed": String(option === value),
        onclick: () => {
          for (const [index, button] of buttons.entries())
            button.setAttribute("aria-pressed", String(options[index][0] === option));
          onChoose(option);
        },
      },
      text,
    ),
  );
  return h("div.segments", { role: "group", "aria-label": label }, buttons);
}
