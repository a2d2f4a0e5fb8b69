// Use against a limit: used, what is held besides, and the words to it.

import { h } from "../lib/dom.js";
import { percent, quantity } from "../lib/format.js";

/** Tone of a share in use: calm, near the limit, at the limit. */
export const toneOf = (share) => (share >= 0.98 ? "bad" : share >= 0.8 ? "warn" : "");

/**
 * A meter.
 *
 * @param {object} use `share` in use, held included; `held` share of it that is only held;
 *   `label` for screen readers; `words` to show above
 */
export function meter({ share, held = 0, label, words }) {
  const part = Math.min(1, Math.max(0, share ?? 0));
  const settled = Math.max(0, part - held);
  return h(
    "div.meter",
    { class: toneOf(part) },
    words &&
      h(
        "div.words",
        null,
        words.map((word) => h("span", null, word)),
      ),
    h(
      "div.track",
      {
        role: "meter",
        "aria-label": label,
        "aria-valuemin": 0,
        "aria-valuemax": 100,
        "aria-valuenow": Math.round(part * 100),
        "aria-valuetext": percent(share),
      },
      h("div.held", { vars: { width: `${part * 100}%` } }),
      h("div.fill", { vars: { width: `${settled * 100}%` } }),
    ),
  );
}

/** The meter of a limit as the API tells it. */
export function limitMeter(limit) {
  if (limit.used_share === null) return "–";
  const held = limit.limit ? (limit.held ?? 0) / limit.limit : 0;
  return meter({
    share: limit.used_share,
    held: Math.min(held, limit.used_share),
    label: `${limit.id} in use`,
    words: [
      `${quantity(limit.used, limit.unit, { rough: true })} of ${quantity(limit.limit, limit.unit, { rough: true })}`,
      percent(limit.used_share),
    ],
  });
}
