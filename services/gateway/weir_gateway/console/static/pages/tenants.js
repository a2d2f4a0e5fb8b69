// Tenants: plan, weight, use of today as the ledger has it.

import { get } from "../lib/api.js";
import { append, fill, h, setText } from "../lib/dom.js";
import { count, money, plural } from "../lib/format.js";
import { nameSeries } from "../lib/colors.js";
import { poll } from "../lib/poll.js";
import { allPages } from "../lib/pages.js";
import { badge, empty, failure, named } from "../components/bits.js";
import { card } from "../components/card.js";
import { filterBar } from "../components/filter_bar.js";
import { Table } from "../components/table.js";

const REFRESH_S = 10;
const MOST = 5000;

/** Draws the page. */
export function open(root, { query, signal }) {
  const trouble = h("div");
  const note = h("span.count", { role: "status" });
  let rows = [];
  const table = new Table({
    label: "Tenants",
    rowKey: (row) => row.id,
    open: (row) => `/console/tenants/${encodeURIComponent(row.id)}`,
    sort: { key: "tokens", down: true },
    columns: COLUMNS,
    empty: empty("No tenant", "Nobody can send requests yet.", "weir tenants put -f tenant.yaml"),
  });
  const filters = filterBar(
    query,
    [{ key: "plan", label: "Plan", options: () => [...new Set(rows.map((row) => row.plan))].sort() }],
    "Filter by id or name",
    draw,
  );
  append(root, [
    trouble,
    h("div.filters", null, filters.element, note),
    card("", { bare: true }, table.element),
  ]);

  async function read() {
    try {
      let problem = null;
      rows = await allPages(async (token) => {
        const answer = await get("tenants", { page_size: 200, page_token: token }, signal);
        problem = answer.usage_error;
        return [answer.tenants, answer.next_page_token];
      }, MOST);
      fill(trouble, problem && failure(problem));
      nameSeries(rows.map((row) => row.id));
      draw();
    } catch (error) {
      if (!signal.aborted) fill(trouble, failure(error, refresh));
      throw error;
    }
  }

  function draw() {
    filters.refresh();
    const shown = rows.filter((row) => filters.fits(row, [row.id, row.name]));
    table.setRows(shown);
    table.setFoot(shown.length > 1 ? totals(shown) : null);
    setText(note, plural(shown.length, "tenant"));
  }

  const refresh = poll(read, REFRESH_S, signal);
}

const today = (key) => (row) => (row.today ? row.today[key] : null);

const COLUMNS = [
  {
    key: "id",
    label: "Tenant",
    value: (row) => row.id,
    cell: (row) =>
      h("a", { href: `/console/tenants/${encodeURIComponent(row.id)}`, tabIndex: -1 }, named(row.id)),
  },
  { key: "name", label: "Name", low: 3, value: (row) => row.name, cell: (row) => row.name || "–" },
  {
    key: "state",
    label: "State",
    low: 2,
    value: (row) => Number(row.suspended),
    cell: (row) => (row.suspended ? badge("suspended", "bad") : badge("active", "good")),
  },
  { key: "plan", label: "Plan", low: 2, value: (row) => row.plan, cell: (row) => row.plan },
  {
    key: "weight",
    label: "Weight",
    number: true,
    low: 2,
    value: (row) => row.weight,
    cell: (row) => count(row.weight),
  },
  {
    key: "keys",
    label: "Keys",
    number: true,
    low: 3,
    value: (row) => row.keys,
    cell: (row) => count(row.keys),
  },
  {
    key: "requests",
    label: "Requests today",
    number: true,
    low: 2,
    value: today("requests"),
    cell: (row) => count(today("requests")(row)),
  },
  {
    key: "prompt",
    label: "Prompt",
    number: true,
    low: 3,
    value: today("prompt_tokens"),
    cell: (row) => count(today("prompt_tokens")(row)),
  },
  {
    key: "output",
    label: "Output",
    number: true,
    low: 3,
    value: today("completion_tokens"),
    cell: (row) => count(today("completion_tokens")(row)),
  },
  {
    key: "tokens",
    label: "Tokens today",
    number: true,
    value: today("total_tokens"),
    cell: (row) => count(today("total_tokens")(row)),
  },
  {
    key: "amount",
    label: "Cost",
    number: true,
    value: (row) => Number(today("amount")(row) ?? Number.NaN),
    cell: (row) => money(today("amount")(row)),
  },
];

function totals(rows) {
  const sum = (key) => rows.reduce((whole, row) => whole + (row.today?.[key] ?? 0), 0);
  const texts = {
    id: "All shown",
    requests: count(sum("requests")),
    prompt: count(sum("prompt_tokens")),
    output: count(sum("completion_tokens")),
    tokens: count(sum("total_tokens")),
  };
  return COLUMNS.map((column) =>
    h(
      "td",
      { class: [column.number && "number", column.low && `low-${column.low}`].filter(Boolean).join(" ") },
      texts[column.key] ?? "",
    ),
  );
}
