// A row of figures: name, number with its unit, a line under it. Updated in place.

import { h, setText } from "../lib/dom.js";

/**
 * A row of figures.
 *
 * @param {string[][]} names `[key, label]` of each
 * @returns {{element: HTMLElement, set: (key, value, unit, under?, tone?) => void}}
 */
export function stats(names) {
  const parts = new Map(names.map(([key, label]) => [key, stat(label)]));
  const element = h(
    "dl.stats",
    null,
    [...parts.values()].map((part) => part.element),
  );
  return { element, set: (key, ...values) => parts.get(key).set(...values) };
}

function stat(label) {
  const number = h("span", null, "–");
  const unit = h("span.unit");
  const under = h("dd.under");
  const element = h("div.stat", null, h("dt", null, label), h("dd.figure", null, number, unit), under);
  return {
    element,
    set(value, unitText = "", underText = "", tone = "") {
      setText(number, value);
      setText(unit, unitText);
      setText(under, underText || "\u00a0");
      number.className = tone;
    },
  };
}
