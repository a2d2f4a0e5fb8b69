// Objectives: whether tenants' targets are kept, and how fast the allowance for misses burns.

import { get } from "../lib/api.js";
import { append, fill, h } from "../lib/dom.js";
import { count, duration, percent } from "../lib/format.js";
import { nameSeries } from "../lib/colors.js";
import { poll } from "../lib/poll.js";
import { badge, empty, failure, named } from "../components/bits.js";
import { card, drawCard } from "../components/card.js";
import { plainTable } from "../components/table.js";

const REFRESH_S = 5;
const NAMES = { ttft: "time to first token", itl: "time between tokens", e2e: "whole answer" };

/** Draws the page. */
export function open(root, { session, signal }) {
  const trouble = h("div");
  const box = h("div");
  append(root, [trouble, card("", { bare: true }, box)]);

  async function read() {
    try {
      const answer = await get("slo", {}, signal);
      fill(trouble);
      drawCard(box, answer, (objectives) => draw(objectives, box, session));
    } catch (error) {
      if (!signal.aborted) fill(trouble, failure(error, refresh));
      throw error;
    }
  }

  const refresh = poll(read, REFRESH_S, signal);
}

function draw(objectives, box, session) {
  if (!objectives.length) {
    const how =
      session.role === "admin"
        ? "Give a plan or tenant targets under policy.slo (docs/pools.md), then:"
        : "The operator has set no targets for this tenant.";
    return fill(
      box,
      empty("No objective", how, session.role === "admin" ? "weir plans put -f plan.yaml" : ""),
    );
  }
  nameSeries(objectives.map((each) => each.tenant));
  const lengths = [
    ...new Set(objectives.flatMap((each) => each.windows.map((window) => window.length_s))),
  ].sort((a, b) => a - b);
  const heads = [
    "Tenant",
    "Objective",
    "#Target",
    "~#Of requests",
    "State",
    ...lengths.map((length) => `#Last ${duration(length)}`),
  ];
  return fill(
    box,
    plainTable(
      "Objectives",
      heads,
      objectives.map((each) => [
        h("a", { href: `/console/tenants/${encodeURIComponent(each.tenant)}` }, named(each.tenant)),
        NAMES[each.objective] ?? each.objective,
        duration(each.target_s),
        percent(each.attainment_target),
        stateOf(each),
        ...lengths.map((length) => windowCell(each.windows.find((window) => window.length_s === length))),
      ]),
    ),
  );
}

function stateOf(each) {
  if (each.windows.every((window) => !window.total)) return badge("no requests");
  return each.kept ? badge("kept", "good") : badge("missed", "bad");
}

function windowCell(window) {
  if (!window?.total) return "–";
  const burn = window.burn_rate === null ? "" : `, burns ${window.burn_rate.toFixed(1)}×`;
  return h(
    "span",
    { title: `${count(window.good)} of ${count(window.total)} requests${burn}` },
    percent(window.attainment),
    h("span.muted", null, burn),
  );
}
