// The live queue: every waiting request with the reason why it waits, and the pools behind it.

import { get } from "../lib/api.js";
import { append, fill, h, setText } from "../lib/dom.js";
import { count, duration, plural, short, shortId, words } from "../lib/format.js";
import { nameSeries } from "../lib/colors.js";
import { poll } from "../lib/poll.js";
import { allPages } from "../lib/pages.js";
import { badge, code, empty, failure, named } from "../components/bits.js";
import { card, drawCard } from "../components/card.js";
import { barList } from "../components/bar_list.js";
import { plainTable, Table } from "../components/table.js";
import { filterBar } from "../components/filter_bar.js";

const REFRESH_S = 3;
const MOST = 2000;

/** Draws the page. */
export function open(root, { session, query, signal }) {
  const admin = session.role === "admin";
  const trouble = h("div");
  const note = h("span.count", { role: "status" });
  const table = new Table({
    label: "Requests that wait",
    rowKey: (row) => row.request_id,
    open: (row) => `/console/requests/${encodeURIComponent(row.request_id)}`,
    sort: { key: "waited", down: true },
    columns: columnsOf(admin),
    empty: empty(
      "Nobody waits",
      "Requests show here while they wait for a worker, with the reason.",
      "weir top",
    ),
  });
  const reasons = h("div");
  const pools = h("div");
  let rows = [];
  const filters = filterBar(
    query,
    [
      admin && { key: "tenant", label: "Tenant", options: () => distinct(rows, "tenant") },
      { key: "reason", label: "Reason", options: () => distinct(rows, "reason"), text: words },
      { key: "model", label: "Model", options: () => distinct(rows, "model") },
    ].filter(Boolean),
    "Filter by id, tenant or user",
    draw,
  );
  append(root, [
    trouble,
    h("div.filters", null, filters.element, note),
    card("", { bare: true }, table.element),
    h(
      "div.grid",
      null,
      card("By reason", { span: admin ? 4 : 12 }, reasons),
      admin && card("Pools", { span: 8, bare: true }, pools),
    ),
  ]);

  async function read() {
    try {
      const answer = await readAll(signal);
      fill(trouble);
      drawCard(trouble, answer.queue, (queue) => {
        rows = queue.requests;
        nameSeries(distinct(rows, "tenant"));
        draw(queue.total);
      });
      if (admin) drawCard(pools, answer.pools, drawPools);
    } catch (error) {
      if (!signal.aborted) fill(trouble, failure(error, refresh));
      throw error;
    }
  }

  function draw(total) {
    filters.refresh();
    const shown = rows.filter((row) => filters.fits(row, [row.request_id, row.tenant, row.user]));
    table.setRows(shown);
    const all = typeof total === "number" ? total : rows.length;
    setText(
      note,
      shown.length === all ? plural(all, "request") : `${count(shown.length)} of ${plural(all, "request")}`,
    );
    fill(
      reasons,
      rows.length
        ? barList("Waiting by reason", reasonsOf(rows))
        : empty("Nothing waits", "Every request that was accepted has a worker."),
    );
  }

  const refresh = poll(read, REFRESH_S, signal);
}

/** All pages of the queue, up to a bound that a person can still look through. */
async function readAll(signal) {
  let first = null;
  const requests = await allPages(async (pageToken) => {
    const answer = await get("queue", { page_size: 200, page_token: pageToken }, signal);
    first ??= answer;
    return answer.queue.data ? [answer.queue.data.requests, answer.queue.data.next_page_token] : [[], ""];
  }, MOST);
  if (first.queue.data) first.queue.data.requests = requests;
  return first;
}

const distinct = (rows, key) => [...new Set(rows.map((row) => row[key]))].sort();

function reasonsOf(rows) {
  const found = new Map();
  for (const { reason, text } of rows)
    found.set(reason, { text, count: (found.get(reason)?.count ?? 0) + 1 });
  return [...found].map(([reason, one]) => ({
    name: code(reason),
    under: one.text,
    value: one.count,
    text: count(one.count),
    color: "series-2",
  }));
}

function columnsOf(admin) {
  return [
    {
      key: "id",
      label: "Request",
      value: (row) => row.request_id,
      cell: (row) => h("span.mono.id", { title: row.request_id }, shortId(row.request_id)),
    },
    admin && { key: "tenant", label: "Tenant", value: (row) => row.tenant, cell: (row) => named(row.tenant) },
    { key: "user", label: "User", low: 3, value: (row) => row.user, cell: (row) => row.user },
    { key: "model", label: "Model", low: 2, value: (row) => row.model, cell: (row) => row.model },
    {
      key: "reason",
      label: "Waits because",
      wide: true,
      value: (row) => row.reason,
      cell: (row) => row.text || words(row.reason),
    },
    {
      key: "position",
      label: "Place",
      number: true,
      low: 2,
      value: (row) => row.position,
      cell: (row) => count(row.position),
    },
    {
      key: "tokens",
      label: "Tokens",
      number: true,
      low: 3,
      value: (row) => row.estimated_tokens,
      cell: (row) => count(row.estimated_tokens),
    },
    {
      key: "priority",
      label: "Priority",
      number: true,
      low: 3,
      value: (row) => row.priority,
      cell: (row) => String(row.priority ?? "–"),
    },
    {
      key: "waited",
      label: "Waited",
      number: true,
      value: (row) => row.waited_s,
      cell: (row) => duration(row.waited_s),
    },
  ].filter(Boolean);
}

/** The queues where somebody waits; of an idle pool the first, which is the usual one. */
function queuesOf(pool) {
  const busy = pool.queues.filter((queue) => queue.waiting > 0);
  return busy.length ? busy : pool.queues.slice(0, 1);
}

function drawPools(pools, box) {
  const rows = pools.flatMap((pool) =>
    queuesOf(pool).map((queue) => [
      h("span", null, `${pool.pool} / ${pool.model} `, h("span.muted", null, pool.model_version)),
      badge(`${queue.class}${queue.long ? ", long" : ""}`),
      count(queue.waiting),
      short(queue.waiting_tokens),
      pool.policy,
      `${pool.live_workers} of ${pool.workers}`,
      duration(queue.predicted_wait_s),
    ]),
  );
  fill(
    box,
    rows.length
      ? plainTable(
          "Pools",
          ["Pool and model", "Class", "#Waiting", "#Tokens", "Order", "#Workers", "#Predicted wait"],
          rows,
        )
      : empty("No pool yet", "A pool shows once a worker serves a model of the directory.", "weir up"),
  );
}
