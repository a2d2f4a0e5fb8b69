// The phases of a request as bars on one axis of time.

import { h } from "../lib/dom.js";
import { duration } from "../lib/format.js";

const COLORS = {
  intake: "series-8",
  reserve: "series-4",
  queue: "series-2",
  dispatch: "series-7",
  prefill: "series-3",
  decode: "series-1",
  settle: "series-6",
};
// What began in the worker is told with the first token: until then the two cannot be told apart.
const AT_WORKER = "at the worker: its prompt waits or is being computed";
const MEANING = {
  intake: "read, validated, rendered, tokenised",
  reserve: "tokens reserved in the account",
  queue: "waited for a worker",
  dispatch: "on the way to the worker",
  prefill: "prompt computed until the first token",
  decode: "output generated",
  settle: "account closed",
};

/** The bars; a phase under way ends at the right edge. */
export function waterfall(phases, summary) {
  if (!phases.length) return h("p.muted", null, "It never got so far that a phase was measured.");
  const begin = Math.min(...phases.map((phase) => Date.parse(phase.start_time)));
  const end = Math.max(
    begin + 1,
    summary.end_time ? Date.parse(summary.end_time) : Date.now(),
    ...phases.filter((phase) => phase.end_time).map((phase) => Date.parse(phase.end_time)),
  );
  const at = (text) => `${((Date.parse(text) - begin) / (end - begin)) * 100}%`;
  return h(
    "div.waterfall",
    { role: "list", "aria-label": "Phases" },
    phases.map((phase) => bar(phase, at, (end - begin) / 1000)),
    h(
      "div.scale",
      { "aria-hidden": "true" },
      h("span"),
      h(
        "div",
        null,
        h("span", null, "0"),
        h("span", null, duration((end - begin) / 2000)),
        h("span", null, duration((end - begin) / 1000)),
      ),
      h("span"),
    ),
  );
}

function bar(phase, at, whole) {
  const seconds = phase.duration_s;
  const share = (seconds ?? whole) / whole;
  const meaning =
    phase.name === "dispatch" && !phase.end_time ? AT_WORKER : (MEANING[phase.name] ?? "");
  const text = `${phase.name}: ${meaning}, ${phase.end_time ? duration(seconds) : "under way"}`;
  const vars = {
    left: at(phase.start_time),
    width: phase.end_time ? `${Math.max(0.2, share * 100)}%` : "auto",
    "--bar": `var(--${COLORS[phase.name] ?? "series-8"})`,
  };
  if (!phase.end_time) vars.right = "0";
  return h(
    "div.phase",
    { role: "listitem", title: phase.detail || text },
    h("span", null, phase.name),
    h("div.lane", { "aria-hidden": "true" }, h("div.bar", { class: phase.end_time ? "" : "open", vars })),
    h("span.took", null, phase.end_time ? duration(seconds) : "under way"),
    h("span.visually-hidden", null, text),
  );
}
