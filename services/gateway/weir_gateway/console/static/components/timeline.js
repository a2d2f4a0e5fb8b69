// The events of a request in the order of time, each with when it was after the first.

import { h } from "../lib/dom.js";
import { duration, utc, words } from "../lib/format.js";

const COLORS = {
  arrived: "series-8",
  reserved: "series-4",
  enqueued: "series-2",
  queued: "series-2",
  dispatched: "series-7",
  first_token: "series-3",
  ended: "series-1",
  settled: "series-6",
  refused: "bad",
  requeued: "warn",
  preempted: "warn",
  stopped: "warn",
  extension_refused: "bad",
  degraded: "warn",
  left_to_sweep: "warn",
};

/** The list. */
export function timeline(events) {
  if (!events.length)
    return h("p.muted", null, "Its events are not kept any more; the ledger knows the rest.");
  const begin = Date.parse(events[0].time);
  return h(
    "ol.timeline",
    null,
    events.map((event) =>
      h(
        "li",
        null,
        h(
          "time.at",
          { dateTime: event.time, title: utc(event.time) },
          `+${duration((Date.parse(event.time) - begin) / 1000)}`,
        ),
        h("span.dot", {
          "aria-hidden": "true",
          vars: { "--dot": `var(--${COLORS[event.kind] ?? "ink-3"})` },
        }),
        h("span", null, words(event.kind), " ", h("span.detail", null, detailOf(event.detail))),
      ),
    ),
  );
}

function detailOf(detail) {
  return Object.entries(detail ?? {})
    .map(([name, value]) =>
      name.endsWith("_s")
        ? `${words(name.slice(0, -2))} ${duration(Number(value))}`
        : `${words(name)} ${value}`,
    )
    .join(", ");
}
