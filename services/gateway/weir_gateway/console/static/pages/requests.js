// The request inspector's list: what lives, ended or was refused lately.

import { get } from "../lib/api.js";
import { append, fill, h, setText } from "../lib/dom.js";
import { count, duration, isKnown, plural, shortId, words } from "../lib/format.js";
import { nameSeries } from "../lib/colors.js";
import { poll } from "../lib/poll.js";
import { empty, failure, named, time } from "../components/bits.js";
import { card } from "../components/card.js";
import { filterBar } from "../components/filter_bar.js";
import { stateBadge } from "../components/request_state.js";
import { Table } from "../components/table.js";

const REFRESH_S = 4;
const STATES = ["live", "ended", "refused"];
const OUTCOMES = [
  "ok",
  "cancelled",
  "client_gone",
  "deadline_exceeded",
  "quota_stopped",
  "shed",
  "error",
  "expired",
];

/** Draws the page. */
export function open(root, { session, query, signal }) {
  const admin = session.role === "admin";
  const trouble = h("div");
  const note = h("span.count", { role: "status" });
  const more = h("button.button", { type: "button", hidden: true, onclick: readMore }, "Show older ones");
  const seen = { tenant: new Set(), model: new Set(), outcome: new Set(OUTCOMES) };
  let [rows, older, next] = [[], [], ""];
  const table = new Table({
    label: "Requests",
    rowKey: (row) => row.request_id,
    open: (row) => `/console/requests/${encodeURIComponent(row.request_id)}`,
    columns: columnsOf(admin),
    empty: empty(
      "No request fits",
      "Requests that live, ended or were refused lately show here.",
      "weir chat",
    ),
  });
  const choices = [
    admin && { key: "tenant", label: "Tenant", options: () => [...seen.tenant].sort() },
    { key: "model", label: "Model", options: () => [...seen.model].sort() },
    { key: "state", label: "State", options: () => [...STATES] },
    { key: "outcome", label: "Outcome", options: () => [...seen.outcome].sort(), text: words },
  ].filter(Boolean);
  const filters = filterBar(query, choices, "Filter by id, user or worker", changed);
  append(root, [
    trouble,
    h("div.filters", null, filters.element, note),
    card("", { bare: true }, table.element),
    more,
  ]);

  function asked(token) {
    const { search: _, ...chosen } = filters.values();
    return get("requests", { ...chosen, page_size: 100, page_token: token }, signal);
  }

  async function read() {
    try {
      const answer = await asked("");
      fill(trouble);
      rows = answer.requests;
      if (!older.length) next = answer.next_page_token;
      draw();
    } catch (error) {
      if (!signal.aborted) fill(trouble, failure(error, refresh));
      throw error;
    }
  }

  async function readMore() {
    more.disabled = true;
    try {
      const answer = await asked(next);
      older.push(...answer.requests);
      next = answer.next_page_token;
      draw();
    } catch (error) {
      fill(trouble, failure(error));
    }
    more.disabled = false;
  }

  function draw() {
    const all = joined(rows, older);
    for (const row of all) {
      for (const key of ["tenant", "model", "outcome"]) if (row[key]) seen[key].add(row[key]);
    }
    nameSeries(seen.tenant);
    filters.refresh();
    const { search } = filters.values();
    const shown = search
      ? all.filter((row) =>
          [row.request_id, row.user, row.worker].some((text) =>
            text?.toLowerCase().includes(search.toLowerCase()),
          ),
        )
      : all;
    table.setRows(shown);
    more.hidden = !next;
    setText(note, `${plural(shown.length, "request")}${next ? ", and older ones" : ""}`);
  }

  let [before, waiting] = [JSON.stringify(serverSide()), 0];
  function changed() {
    const now = JSON.stringify(serverSide());
    if (now === before) return draw();
    before = now;
    [older, next] = [[], ""];
    clearTimeout(waiting);
    waiting = setTimeout(refresh, 60);
    return undefined;
  }

  function serverSide() {
    const { search: _, ...rest } = filters.values();
    return rest;
  }

  const refresh = poll(read, REFRESH_S, signal);
}

/** Newest first, each once: what is now on the first page may be on a later one of before. */
function joined(rows, older) {
  const ids = new Set(rows.map((row) => row.request_id));
  return [...rows, ...older.filter((row) => !ids.has(row.request_id))];
}

function columnsOf(admin) {
  const tokens = (row) =>
    isKnown(row.prompt_tokens) ? `${count(row.prompt_tokens)} + ${count(row.output_tokens)}` : "–";
  return [
    {
      key: "arrival",
      label: "Arrived",
      low: 2,
      value: (row) => row.arrival_time,
      cell: (row) => time(row.arrival_time),
    },
    {
      key: "id",
      label: "Request",
      value: (row) => row.request_id,
      cell: (row) =>
        h(
          "a.mono.id",
          {
            href: `/console/requests/${encodeURIComponent(row.request_id)}`,
            title: row.request_id,
            tabIndex: -1,
          },
          shortId(row.request_id),
        ),
    },
    admin && { key: "tenant", label: "Tenant", value: (row) => row.tenant, cell: (row) => named(row.tenant) },
    { key: "model", label: "Model", low: 2, value: (row) => row.model, cell: (row) => row.model ?? "–" },
    { key: "state", label: "State", value: (row) => row.state, cell: (row) => stateBadge(row) },
    {
      key: "queue",
      label: "Queued",
      number: true,
      low: 3,
      value: (row) => row.queue_s,
      cell: (row) => duration(row.queue_s),
    },
    {
      key: "ttft",
      label: "TTFT",
      number: true,
      low: 2,
      value: (row) => row.ttft_s,
      cell: (row) => duration(row.ttft_s),
    },
    {
      key: "duration",
      label: "Took",
      number: true,
      low: 2,
      value: (row) => row.duration_s,
      cell: (row) => duration(row.duration_s),
    },
    {
      key: "tokens",
      label: "Tokens in + out",
      number: true,
      low: 2,
      value: (row) => (row.prompt_tokens ?? 0) + (row.output_tokens ?? 0),
      cell: tokens,
    },
    { key: "worker", label: "Worker", low: 3, value: (row) => row.worker, cell: (row) => row.worker || "–" },
  ].filter(Boolean);
}
