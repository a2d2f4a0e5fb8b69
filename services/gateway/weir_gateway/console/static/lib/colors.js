// One colour for each tenant, model or limit, the same on every page of a visit.

/** How many there are; further names share them. */
export const SERIES = 8;
const given = new Map();

/** Name of the token of a thing's colour; by the order in which things were seen. */
export function seriesOf(name) {
  if (!given.has(name)) given.set(name, (given.size % SERIES) + 1);
  return `series-${given.get(name)}`;
}

/** Gives colours to names in their alphabetical order, so that a reload gives the same ones. */
export function nameSeries(names) {
  for (const name of [...names].sort()) seriesOf(name);
}
