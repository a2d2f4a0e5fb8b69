// The state of a request as a badge: how it ended, why it was refused, or that it lives.

import { words } from "../lib/format.js";
import { badge } from "./bits.js";

const TONES = {
  ok: "good",
  cancelled: "",
  client_gone: "",
  quota_stopped: "warn",
  shed: "warn",
  expired: "warn",
};

/** The badge of a request's summary. */
export function stateBadge({ state, outcome, reason }) {
  if (state === "running" || state === "queued") return badge(state, "accent");
  if (state === "refused") return badge(reason ? words(reason) : "refused", "warn");
  const name = String(outcome ?? "ended").toLowerCase();
  return badge(words(name), TONES[name] ?? (outcome ? "bad" : ""));
}
