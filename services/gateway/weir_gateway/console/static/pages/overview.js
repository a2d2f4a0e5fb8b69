// The live overview: figures of the last minute, charts of the window, what is refused and waits.

import { get } from "../lib/api.js";
import { append, fill, h } from "../lib/dom.js";
import { count, duration, durationParts, percent, plural, short } from "../lib/format.js";
import { nameSeries } from "../lib/colors.js";
import { poll } from "../lib/poll.js";
import { badge, code, empty, failure, named } from "../components/bits.js";
import { card, drawCard } from "../components/card.js";
import { segments } from "../components/segments.js";
import { barList } from "../components/bar_list.js";
import { overviewCharts } from "../components/overview_charts.js";
import { stats } from "../components/stats.js";
import { plainTable } from "../components/table.js";
import { onOverview } from "../app/feed.js";
import { setQuery } from "../app/router.js";

const WINDOWS = [
  ["300", "5 min"],
  ["900", "15 min"],
  ["3600", "1 h"],
  ["21600", "6 h"],
  ["86400", "24 h"],
];
const POINTS = 180;
const REFRESH_S = 5;

/** Draws the page. */
export function open(root, { session, query, signal }) {
  const admin = session.role === "admin";
  const figures = stats(figuresOf(admin));
  const alerts = h("div.alerts");
  const parts = Object.fromEntries(
    ["refusals", "reasons", "tenants", "models"].map((name) => [name, h("div")]),
  );
  const charts = overviewCharts(admin, signal);
  const trouble = h("div", { hidden: true });
  let span = WINDOWS.some(([value]) => value === query.get("window")) ? query.get("window") : "900";

  const range = segments("Window of the charts", WINDOWS, span, (value) => {
    span = value;
    setQuery({ window: value === "900" ? "" : value });
    refresh();
  });
  append(root, [
    alerts,
    figures.element,
    h("div.filters", null, h("h2", null, "Over time"), h("span.grow"), range),
    trouble,
    h(
      "div.grid",
      null,
      charts.map((chart) => chart.element),
    ),
    h(
      "div.grid",
      null,
      card("Refused by limit", { span: 6, aside: "last minute" }, parts.refusals),
      card("Waiting by reason", { span: 6 }, parts.reasons),
      admin && card("Busiest tenants", { span: 6, bare: true }, parts.tenants),
      card("Models", { span: admin ? 6 : 12, bare: true }, parts.models),
    ),
  ]);

  async function readHistory() {
    const history = await get(
      "history",
      { window_s: span, step_s: Math.max(2, Math.ceil(span / POINTS)) },
      signal,
    ).catch(withTrouble);
    trouble.hidden = true;
    drawCard(trouble, history, ({ times, series }) => {
      for (const chart of charts) chart.setData(times, series, Number(span));
    });
    trouble.hidden = !history.error;
  }

  function withTrouble(error) {
    if (!signal.aborted) {
      fill(trouble, failure(error));
      trouble.hidden = false;
    }
    throw error;
  }

  const refresh = poll(readHistory, REFRESH_S, signal);
  onOverview((overview) => draw(overview, { figures, alerts, parts, admin }), signal);
}

const figuresOf = (admin) => [
  ["output", "Output tokens"],
  ["ttft50", "TTFT p50"],
  ["ttft95", "TTFT p95"],
  ["flight", "In flight"],
  ["waiting", "Waiting"],
  ["refused", "Refused"],
  ...(admin
    ? [
        ["workers", "Workers ready"],
        ["kv", "KV blocks held"],
      ]
    : []),
];

function draw(overview, { figures, alerts, parts, admin }) {
  drawTraffic(overview.traffic, figures, parts, admin);
  drawQueue(overview.queue, figures, parts);
  if (admin) drawWorkers(overview.workers, figures);
  drawAlerts(overview.alerts, alerts);
}

function drawTraffic(part, figures, parts, admin) {
  if (part?.error) {
    for (const box of [parts.refusals, parts.tenants, parts.models]) fill(box, failure(part.error));
    return;
  }
  const traffic = part.data;
  figures.set(
    "output",
    short(traffic.output_tokens_per_s),
    "/s",
    `${short(traffic.prompt_tokens_per_s)} prompt/s`,
  );
  figures.set(
    "ttft50",
    ...durationParts(traffic.ttft?.p50_s ?? null),
    traffic.ttft?.count ? `of ${plural(traffic.ttft.count, "answer")}` : "no answer yet",
  );
  figures.set(
    "ttft95",
    ...durationParts(traffic.ttft?.p95_s ?? null),
    traffic.ttft?.count ? `p99 ${duration(traffic.ttft.p99_s)}` : "",
  );
  figures.set("flight", count(traffic.in_flight), "", `${short(traffic.requests_per_s)} requests/s`);
  const refusals = traffic.refusals.reduce((sum, each) => sum + each.count, 0);
  figures.set(
    "refused",
    short(traffic.refused_per_s),
    "/s",
    refusals ? `${count(refusals)} in a minute` : "none in a minute",
    refusals ? "warn" : "",
  );
  fill(
    parts.refusals,
    traffic.refusals.length
      ? barList(
          "Refused by limit",
          traffic.refusals.map(({ limit, count: value }) => ({
            name: code(limit),
            value,
            text: count(value),
            color: "series-5",
          })),
        )
      : empty(
          "Nothing was refused",
          "Every request of the last minute fitted its limits.",
          admin ? "weir limits show TENANT" : "",
        ),
  );
  nameSeries((traffic.tenants ?? []).map((each) => each.tenant));
  if (admin)
    fill(
      parts.tenants,
      trafficTable("Busiest tenants", "Tenant", traffic.tenants, ({ tenant }) =>
        h("a", { href: `/console/tenants/${encodeURIComponent(tenant)}` }, named(tenant)),
      ),
    );
  fill(
    parts.models,
    trafficTable("Models", "Model", traffic.models, ({ model }) => model),
  );
}

function trafficTable(label, first, rows, name) {
  if (!rows?.length)
    return empty(
      "No traffic in the last minute",
      "Send a request and it shows here at once.",
      "weir chat",
    );
  return plainTable(
    label,
    [first, "~#Requests/s", "#Output/s", "#In flight", "#TTFT p95"],
    rows
      .slice(0, 8)
      .map((row) => [
        name(row),
        short(row.requests_per_s),
        short(row.output_tokens_per_s),
        count(row.in_flight),
        duration(row.ttft?.p95_s ?? null),
      ]),
  );
}

function drawQueue(part, figures, parts) {
  if (part?.error) {
    figures.set("waiting", "–", "", part.error.reason);
    fill(parts.reasons, failure(part.error));
    return;
  }
  const queue = part.data;
  figures.set(
    "waiting",
    count(queue.waiting),
    "",
    queue.waiting ? `oldest ${duration(queue.oldest_wait_s)}` : "nobody waits",
  );
  fill(
    parts.reasons,
    queue.reasons.length
      ? barList(
          "Waiting by reason",
          queue.reasons.map((each) => ({
            name: code(each.reason),
            under: each.text,
            value: each.count,
            text: count(each.count),
            color: "series-2",
          })),
        )
      : empty("Nothing waits", "Every request that was accepted has a worker."),
  );
}

function drawWorkers(part, figures) {
  if (part?.error) {
    figures.set("workers", "–", "", part.error.reason);
    figures.set("kv", "–", "", part.error.reason);
    return;
  }
  const { ready, total, draining, lost, running, kv_use: used, kv_blocks: blocks } = part.data;
  const trouble = [draining && `${draining} draining`, lost && `${lost} lost`].filter(Boolean).join(", ");
  figures.set(
    "workers",
    count(ready),
    `of ${count(total)}`,
    trouble || `${count(running)} running`,
    ready === 0 ? "bad" : lost ? "warn" : "",
  );
  figures.set("kv", percent(used), "", `of ${count(blocks)}`);
}

function drawAlerts(part, box) {
  fill(
    box,
    part?.error
      ? failure(part.error)
      : (part?.data ?? []).map((alert) =>
          h(
            "div.notice",
            { class: alert.severity === "critical" ? "bad" : "warn", role: "status" },
            badge(alert.severity, alert.severity === "critical" ? "bad" : "warn"),
            h("div", null, h("strong", null, alert.title), " ", alert.text),
            alert.page && h("a.button.small", { href: alert.page }, "Show"),
          ),
        ),
  );
}
