// The newest overview, for whoever draws it.

let newest = null;
const readers = new Set();

/** Tells readers of a new overview. */
export function publish(overview) {
  newest = overview;
  for (const reader of readers) reader(overview);
}

/** Reads the newest overview, now and whenever one comes, until the signal is aborted. */
export function onOverview(reader, signal) {
  readers.add(reader);
  signal.addEventListener("abort", () => readers.delete(reader));
  if (newest) reader(newest);
}
