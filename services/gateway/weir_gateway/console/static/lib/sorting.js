// Orders of rows; what is not known comes last either way.

import { isKnown } from "./format.js";

const collator = new Intl.Collator("en", { numeric: true, sensitivity: "base" });

/** Compares rows by a value of each. */
export function compareBy(value, down) {
  return (left, right) => {
    const [a, b] = [value(left), value(right)];
    if (!isKnown(a) || !isKnown(b)) return Number(!isKnown(a)) - Number(!isKnown(b));
    const order = typeof a === "number" ? a - b : collator.compare(a, b);
    return down ? -order : order;
  };
}

/** The order after a press on a head: numbers begin with the largest, and each press turns it. */
export function nextSort(sort, column) {
  if (sort?.key === column.key) return { key: column.key, down: !sort.down };
  return { key: column.key, down: Boolean(column.number) };
}
