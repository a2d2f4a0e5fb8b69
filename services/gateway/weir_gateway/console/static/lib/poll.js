// Reading again and again: one call at a time, none while the page is hidden.

/**
 * Calls `read` now and then `seconds` after each end, until the signal is aborted.
 * Failures are the reader's to show; they double the pause, up to half a minute.
 */
export function poll(read, seconds, signal) {
  let timer = 0;
  let failures = 0;
  let running = false;

  async function round() {
    clearTimeout(timer);
    if (running || signal.aborted) return;
    if (document.hidden) return;
    running = true;
    try {
      await read();
      failures = 0;
    } catch (error) {
      if (!signal.aborted) failures += 1;
      if (error.name !== "AbortError" && error.status === undefined) console.error(error);
    }
    running = false;
    if (!signal.aborted) timer = setTimeout(round, Math.min(30, seconds * 2 ** failures) * 1000);
  }

  document.addEventListener("visibilitychange", round, { signal });
  signal.addEventListener("abort", () => clearTimeout(timer));
  round();
  return round;
}
