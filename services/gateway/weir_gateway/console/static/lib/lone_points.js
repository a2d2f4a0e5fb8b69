// Points of a line that no line reaches: nothing is known right before them, nor right after.

/** Indices of the values that stand alone; null if none does. */
export function lonePoints(column) {
  const known = (index) => column[index] !== null && column[index] !== undefined;
  const alone = [...column.keys()].filter(
    (index) => known(index) && !known(index - 1) && !known(index + 1),
  );
  return alone.length ? alone : null;
}
