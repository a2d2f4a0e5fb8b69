// The event stream of the overview: one a window, closed while the window is hidden.

const RETRY_MS = 3000;

/**
 * Follows the stream until the signal is aborted.
 *
 * @param {(overview: object) => void} onOverview
 * @param {(state: "live"|"lost"|"paused") => void} onState
 * @param {(message: string) => void} onEnd the session is over
 */
export function follow(onOverview, onState, onEnd, signal) {
  let source = null;
  let timer = 0;

  function open() {
    close();
    if (document.hidden || signal.aborted) return onState("paused");
    source = new EventSource("/console/api/live");
    source.addEventListener("overview", (event) => {
      onState("live");
      onOverview(JSON.parse(event.data));
    });
    source.addEventListener("end", (event) => {
      close();
      onEnd(JSON.parse(event.data).message);
    });
    source.addEventListener("error", () => {
      close();
      onState("lost");
      timer = setTimeout(open, RETRY_MS);
    });
  }

  function close() {
    clearTimeout(timer);
    source?.close();
    source = null;
  }

  document.addEventListener("visibilitychange", open, { signal });
  signal.addEventListener("abort", close);
  open();
}
