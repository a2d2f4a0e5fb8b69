// Names with their numbers as bars, the largest first.

import { h } from "../lib/dom.js";

/**
 * A list of bars.
 *
 * @param {string} label of the list
 * @param {object[]} rows `{name, under?, value, text, color}`; `name` is a text or a node
 */
export function barList(label, rows) {
  const most = Math.max(...rows.map((row) => row.value), 1e-9);
  const ordered = [...rows].sort((a, b) => b.value - a.value);
  return h(
    "ul.bars",
    { "aria-label": label },
    ordered.map((row) =>
      h(
        "li",
        null,
        h("div.words", null, h("span", null, row.name), h("span.value", null, row.text)),
        h(
          "div.track",
          { "aria-hidden": "true" },
          h("div.fill", { vars: { width: `${(row.value / most) * 100}%`, "--bar": `var(--${row.color})` } }),
        ),
        row.under && h("div.under", null, row.under),
      ),
    ),
  );
}
