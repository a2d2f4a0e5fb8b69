// Use of a tenant over days, split by what it is asked for; the sum is the ledger's, to the token.

import { get, pathOf } from "../lib/api.js";
import { fill, h } from "../lib/dom.js";
import { count, instant, money } from "../lib/format.js";
import { setQuery } from "../app/router.js";
import { empty, failure, named } from "./bits.js";
import { segments } from "./segments.js";
import { plainTable } from "./table.js";

const RANGES = [
  ["1", "Today"],
  ["7", "7 days"],
  ["30", "30 days"],
];
const SPLITS = [
  ["model", "Model"],
  ["user", "User"],
  ["key", "Key"],
  ["day", "Day"],
  ["hour", "Hour"],
];

/** The panel as a card. */
export function usagePanel(tenant, query, signal) {
  let days = pick(RANGES, query.get("days"), "1");
  let by = pick(SPLITS, query.get("by"), "model");
  const box = h("div");

  async function read() {
    try {
      const answer = await get(
        pathOf("tenants", tenant, "usage"),
        { by, from_time: fromTime(Number(days)) },
        signal,
      );
      draw(box, answer, by);
    } catch (error) {
      if (!signal.aborted) fill(box, failure(error, read));
    }
  }

  function choose(changes) {
    setQuery(changes);
    read();
  }

  read();
  return h(
    "section.card",
    { "aria-label": "Use" },
    h(
      "header",
      null,
      h("h2", null, "Use"),
      h(
        "span.aside.filters",
        null,
        segments("Range", RANGES, days, (value) => {
          days = value;
          choose({ days: value });
        }),
        segments("Split by", SPLITS, by, (value) => {
          by = value;
          choose({ by: value });
        }),
      ),
    ),
    box,
  );
}

const pick = (options, value, otherwise) =>
  options.some(([option]) => option === value) ? value : otherwise;

/** Midnight (UTC, as the ledger's windows are) so many days ago. */
function fromTime(days) {
  const from = new Date();
  from.setUTCHours(0, 0, 0, 0);
  from.setUTCDate(from.getUTCDate() - days + 1);
  return from.toISOString();
}

function draw(box, { total, rows }, by) {
  if (!rows.length)
    return fill(
      box,
      empty(
        "No use in this range",
        "What is charged shows here within seconds of a request's end.",
        "weir ledger usage",
      ),
    );
  const cells = (use) => [
    count(use.requests),
    count(use.prompt_tokens),
    count(use.cached_prompt_tokens),
    count(use.completion_tokens),
    count(use.total_tokens),
    money(use.amount),
  ];
  const name = (row) =>
    by === "day" || by === "hour" ? instant(row.time) : by === "model" ? named(row.model) : row[by] || "–";
  const heads = [
    SPLITS.find(([value]) => value === by)[1],
    "#Requests",
    "#Prompt",
    "#of it cached",
    "#Output",
    "#Tokens",
    "#Cost",
  ];
  const table = plainTable(
    "Use",
    heads,
    rows.map((row) => [name(row), ...cells(row)]),
  );
  table.querySelector("table").append(
    h(
      "tfoot",
      null,
      h(
        "tr",
        { data: { total: "usage" } },
        h("td", null, "Total"),
        cells(total).map((text) => h("td.number", null, text)),
      ),
    ),
  );
  return fill(box, table);
}
