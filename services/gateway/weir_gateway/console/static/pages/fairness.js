// Fairness: the service that each tenant got against its weight, by pool.

import { get } from "../lib/api.js";
import { append, fill, h } from "../lib/dom.js";
import { count, duration, percent, plural, short } from "../lib/format.js";
import { nameSeries, seriesOf } from "../lib/colors.js";
import { poll } from "../lib/poll.js";
import { badge, empty, failure, named } from "../components/bits.js";
import { card, drawCard } from "../components/card.js";
import { stats } from "../components/stats.js";
import { plainTable } from "../components/table.js";

const REFRESH_S = 3;
const BOUND =
  "Of tenants that wait, the queue serves the one with the least service for its weight. So what two of " +
  "them get differs by a bounded number of tokens, whatever they send. A share differs from its due when " +
  "a tenant asked for less: ";

/** Draws the page. */
export function open(root, { signal }) {
  const trouble = h("div");
  const box = h("div.stack");
  append(root, [trouble, box]);

  async function read() {
    try {
      const answer = await get("fairness", {}, signal);
      fill(trouble);
      drawCard(box, answer, (pools) => draw(pools, box));
    } catch (error) {
      if (!signal.aborted) fill(trouble, failure(error, refresh));
      throw error;
    }
  }

  const refresh = poll(read, REFRESH_S, signal);
}

function draw(pools, box) {
  nameSeries(pools.flatMap((pool) => pool.tenants.map((each) => each.tenant)));
  if (!pools.length)
    return fill(
      box,
      empty("No pool yet", "A pool shows once a worker serves a model of the directory.", "weir up"),
    );
  return fill(box, pools.map(poolView));
}

function poolView(pool) {
  const figures = stats([
    ["jain", "Jain index"],
    ["share", "Furthest from its share"],
    ["gap", "Lead in the queue"],
    ["tenants", "Tenants"],
  ]);
  const jain = pool.jain_index;
  figures.set(
    "jain",
    jain === null ? "–" : jain.toFixed(3),
    "",
    jain === null ? "fewer than two tenants waited" : "1 is perfectly fair",
    jain !== null && jain < 0.8 ? "warn" : "",
  );
  const furthest = furthestOf(pool.tenants);
  figures.set(
    "share",
    furthest ? percent(Math.abs(furthest.service_share - furthest.weight_share)) : "–",
    "",
    furthest
      ? `${furthest.tenant}, ${furthest.service_share > furthest.weight_share ? "above" : "below"}`
      : "",
  );
  figures.set("gap", short(spread(pool.tenants)), "tokens/weight", "between tenants that wait");
  figures.set("tenants", count(pool.tenants.length), "", `over ${duration(pool.window_s)}`);
  const aside = [badge(pool.isolation || "shared"), ` ${pool.model_version}`];
  const body = pool.tenants.length
    ? tenantTable(pool)
    : empty(
        "Nobody asked",
        `No tenant was served or waited within ${duration(pool.window_s)}.`,
        "weir chat",
      );
  return [
    h("div.title-row", null, h("h2", null, `${pool.pool} / ${pool.model}`), h("span.muted", null, aside)),
    figures.element,
    card("Service against weight", { bare: true, aside: "line: what its weight is due" }, body),
    h(
      "p.muted",
      null,
      BOUND,
      plural(pool.tenants.filter((each) => !each.waiting).length, "tenant"),
      " did not wait just now.",
    ),
  ];
}

function furthestOf(tenants) {
  const known = tenants.filter((each) => each.service_share !== null && each.weight_share !== null);
  return known.sort(
    (a, b) => Math.abs(b.service_share - b.weight_share) - Math.abs(a.service_share - a.weight_share),
  )[0];
}

/** How far the most and the least served of those that wait are apart, in service per weight. */
function spread(tenants) {
  const counters = tenants
    .filter((each) => each.waiting > 0 && each.counter !== null)
    .map((each) => each.counter);
  return counters.length > 1 ? Math.max(...counters) - Math.min(...counters) : null;
}

function tenantTable(pool) {
  const rows = [...pool.tenants]
    .sort((a, b) => (b.served_tokens ?? 0) - (a.served_tokens ?? 0))
    .map((each) => [
      h("a", { href: `/console/tenants/${encodeURIComponent(each.tenant)}` }, named(each.tenant)),
      count(each.weight),
      shareBar(each),
      percent(each.service_share),
      percent(each.weight_share),
      count(each.served_tokens),
      short(each.service_per_weight),
      count(each.running),
      count(each.waiting),
    ]);
  return plainTable(
    "Service against weight",
    ["Tenant", "#Weight", "Share", "#Got", "#Due", "#Tokens served", "#Per weight", "#Running", "#Waiting"],
    rows,
  );
}

function shareBar(each) {
  return h(
    "div.share-bars",
    { "aria-hidden": "true" },
    h(
      "div.track",
      null,
      h("div.fill", {
        vars: { width: `${(each.service_share ?? 0) * 100}%`, "--bar": `var(--${seriesOf(each.tenant)})` },
      }),
      h("div.due", { vars: { left: `${(each.weight_share ?? 0) * 100}%` } }),
    ),
  );
}
