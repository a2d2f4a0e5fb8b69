// Small parts of pages: badges, swatches, times, names and values, what stands where nothing is.

import { h } from "../lib/dom.js";
import { ago, instant, utc, UNKNOWN } from "../lib/format.js";
import { seriesOf } from "../lib/colors.js";

/** A word in a capsule; tone: `good`, `warn`, `bad`, `accent` or none. */
export const badge = (text, tone = "") => h("span.badge", { class: tone }, text);

/** A name as it is written in code, settings and metrics. */
export const code = (text) => h("code", null, text);

/** A square in the colour of a name. */
export const swatch = (name) => h("span.swatch", { vars: { "--swatch": `var(--${seriesOf(name)})` } });

/** A name with its colour; `id`: whose colour, if it is shown by another name. */
export const named = (name, id = name) => h("span.named", null, swatch(id), name);

/** An instant in local time, UTC when hovered. */
export const time = (text) =>
  text ? h("time", { dateTime: text, title: utc(text) }, instant(text)) : UNKNOWN;

/** An instant as how long ago it was, UTC when hovered. */
export const since = (text) => (text ? h("time", { dateTime: text, title: utc(text) }, ago(text)) : UNKNOWN);

/** Names and values: `[["Plan", "team"], ...]`; pairs that are null are left out. */
export function facts(pairs) {
  return h(
    "dl.facts",
    null,
    pairs.filter(Boolean).map(([name, value]) => [h("dt", null, name), h("dd", null, value)]),
  );
}

/** What stands where there is nothing: what that means, and the command that would change it. */
export function empty(title, text, command) {
  return h(
    "div.empty",
    null,
    h("strong", null, title),
    text,
    command && h("div", null, h("code.command", null, command)),
  );
}

/** While the first answer is under way. */
export const loading = () => h("div.loading", { role: "status" }, "Loading");

/** A bad or noteworthy state: what is, and what to do. */
export function notice(tone, title, text, action) {
  return h(
    "div.notice",
    { class: tone, role: tone === "bad" ? "alert" : "status" },
    h("div", null, h("strong", null, title), " ", text),
    action,
  );
}

/** The notice of a failed call. */
export function failure(error, retry) {
  const title = error.reason ? `${error.reason}: ` : "";
  const wait = error.retryAfter ? ` Try again in ${error.retryAfter} s.` : "";
  const again = retry && h("button.button.small", { type: "button", onclick: retry }, "Try again");
  return notice("bad", title, `${error.message}${wait}`, again);
}
