// One tenant: use against every limit with the one that binds, the ledger's sums and whether the
// token account agrees with them, and where the use comes from.

import { get, pathOf } from "../lib/api.js";
import { append, fill, h } from "../lib/dom.js";
import { count, duration, money, quantity, words } from "../lib/format.js";
import { poll } from "../lib/poll.js";
import { badge, empty, facts, failure, named, notice, time } from "../components/bits.js";
import { card, drawCard } from "../components/card.js";
import { limitMeter } from "../components/meter.js";
import { stats } from "../components/stats.js";
import { plainTable } from "../components/table.js";
import { usagePanel } from "../components/usage_panel.js";
import { setQuery } from "../app/router.js";

const REFRESH_S = 4;

/** Draws the page. */
export function open(root, { params, query, session, signal, setCrumbs }) {
  const { tenant } = params;
  setCrumbs(tenant);
  const trouble = h("div");
  const head = h("div.title-row");
  const figures = stats([
    ["flight", "In flight"],
    ["requests", "Requests today"],
    ["tokens", "Tokens today"],
    ["cached", "Read from the cache"],
    ["cost", "Cost today"],
    ["month", "Tokens this month"],
  ]);
  const agree = h("div");
  const limits = h("div");
  const subject = subjectFields(query, () => refresh());
  const members = h("div");
  append(root, [
    trouble,
    head,
    figures.element,
    card("Limits", { bare: true, aside: subject.element }, limits),
    card("Account against ledger", {}, agree),
    usagePanel(tenant, query, signal),
    card("Keys", { bare: true }, members),
  ]);

  async function read() {
    try {
      const [answer, drilled] = await Promise.all([
        get(pathOf("tenants", tenant), {}, signal),
        readDrilled(),
      ]);
      fill(trouble);
      drawHead(head, answer, session);
      drawFigures(figures, answer);
      drawCard(agree, answer.reconciliation, drawReconciliation);
      if (drilled?.error) fill(limits, failure(drilled.error));
      else drawCard(limits, drilled ? { data: drilled } : answer.limits, drawLimits);
    } catch (error) {
      if (!signal.aborted) fill(trouble, failure(error, refresh));
      throw error;
    }
  }

  /** The limits of one user, key or model, if some are chosen; a bad choice is the card's to tell. */
  async function readDrilled() {
    const chosen = subject.values();
    if (!Object.values(chosen).some(Boolean)) return null;
    try {
      return await get(pathOf("tenants", tenant, "limits"), chosen, signal);
    } catch (error) {
      return { error };
    }
  }

  async function readMembers() {
    try {
      const [keys, users] = await Promise.all(
        ["keys", "users"].map((kind) => get(pathOf("tenants", tenant, kind), { page_size: 200 }, signal)),
      );
      drawKeys(members, keys.keys);
      subject.offer({ user: users.users.map((user) => user.id), key: keys.keys.map((key) => key.id) });
    } catch (error) {
      if (!signal.aborted) fill(members, failure(error, readMembers));
    }
  }

  const refresh = poll(read, REFRESH_S, signal);
  readMembers();
}

function drawHead(box, { tenant }, session) {
  fill(
    box,
    named(tenant.name || tenant.id, tenant.id),
    tenant.suspended ? badge("suspended", "bad") : badge("active", "good"),
    badge(`plan ${tenant.plan}`),
    badge(`weight ${tenant.weight}`),
    h("span.grow"),
    h("a", { href: `/console/requests?tenant=${encodeURIComponent(tenant.id)}` }, "Its requests"),
    session.pages.includes("queue") &&
      h("a", { href: `/console/queue?tenant=${encodeURIComponent(tenant.id)}` }, "Its queue"),
  );
}

function drawFigures(figures, { in_flight: flight, today, month }) {
  figures.set("flight", count(flight));
  const day = today.data;
  const away = today.error?.reason ?? "";
  figures.set("requests", count(day?.requests), "", away);
  figures.set(
    "tokens",
    count(day?.total_tokens),
    "",
    day ? `${count(day.prompt_tokens)} in, ${count(day.completion_tokens)} out` : away,
  );
  figures.set(
    "cached",
    count(day?.cached_prompt_tokens),
    "tokens",
    day?.prompt_tokens
      ? `${Math.round((day.cached_prompt_tokens / day.prompt_tokens) * 100)} % of prompts`
      : "",
  );
  figures.set("cost", money(day?.amount), "", "as priced when it ran");
  figures.set(
    "month",
    count(month.data?.total_tokens),
    "",
    month.data ? `${money(month.data.amount)} in all` : month.error?.reason,
  );
}

function drawLimits({ mode, binding, limits }, box) {
  if (!limits.length)
    return fill(box, empty("No limit", "Nothing bounds what this tenant may use.", "weir plans ls"));
  const rows = limits.map((limit) => [
    h(
      "span.limit",
      null,
      h("span.mono", null, limit.id),
      limit.binding && badge("binds", "accent"),
      limit.shadow && badge("shadow"),
    ),
    words(limit.layer),
    limitMeter(limit),
    quantity(limit.held, limit.unit),
    quantity(limit.remaining, limit.unit),
    limit.window || (limit.limit_type === "concurrency" ? "at once" : "rate"),
    limit.limit_type === "concurrency" ? "as requests end" : time(limit.reset_time),
  ]);
  return fill(
    box,
    mode === "degraded" &&
      notice(
        "warn",
        "Degraded.",
        "The limiter works without its store, on a share of the rates; numbers are of one process.",
      ),
    h(
      "p.pad-note",
      null,
      binding
        ? ["Fullest now, so the first to refuse: ", h("span.mono", null, binding)]
        : "Nothing of any limit is used now.",
    ),
    plainTable("Limits", ["Limit", "~Layer", "In use", "~#Held", "~#Left", "~Window", "~Resets"], rows),
  );
}

const AGREE = {
  agree: ["good", "agree"],
  catching_up: ["accent", "catching up"],
  differ: ["bad", "differ"],
  unknown: ["", "unknown"],
};

function drawReconciliation(reconciliation, box) {
  const [tone, text] = AGREE[reconciliation.state];
  const rows = reconciliation.checks.map((check) => [
    h("span.mono", null, check.what),
    check.window,
    quantity(check.account, check.unit),
    quantity(check.held, check.unit),
    quantity(check.ledger, check.unit),
    h("span", { class: check.difference ? "bad" : "good" }, quantity(check.difference, check.unit)),
    badge(...[...AGREE[check.state]].reverse()),
  ]);
  fill(
    box,
    h("div.title-row", null, badge(text, tone), h("span.soft", null, reconciliation.text)),
    rows.length
      ? h(
          "div.inset",
          null,
          plainTable(
            "Account against ledger",
            ["Window", "Of", "#Account", "#Held besides", "#Ledger", "#Difference", "State"],
            rows,
          ),
        )
      : null,
    facts([
      ["Checked", time(reconciliation.checked_time)],
      ["Ledger is behind by", duration(reconciliation.lag_s)],
      ["Events waiting", count(reconciliation.waiting_events)],
    ]),
  );
}

function drawKeys(box, keys) {
  if (!keys.length)
    return fill(
      box,
      empty("No key", "This tenant cannot call anything yet.", "weir keys create --tenant TENANT --user USER"),
    );
  return fill(
    box,
    plainTable(
      "Keys",
      ["Key", "Name", "User", "State", "Expires", "Models", "#Requests today", "#Tokens today"],
      keys.map((key) => [
        h("span.mono", null, key.id),
        key.name || "–",
        key.user || "–",
        key.revoked ? badge("revoked", "bad") : badge("active", "good"),
        time(key.expire_time),
        key.models.length ? key.models.join(", ") : "all",
        count(key.today?.requests),
        count(key.today?.total_tokens),
      ]),
    ),
  );
}

/** Choices of a user and a key: the limits are then those of that very caller. */
function subjectFields(query, onChange) {
  const chosen = { user: query.get("user") ?? "", key: query.get("key") ?? "" };
  const selects = Object.fromEntries(
    Object.keys(chosen).map((name) => [
      name,
      h("select.select.small", {
        "aria-label": `Limits of ${name}`,
        onchange: (event) => choose(name, event.target.value),
      }),
    ]),
  );

  function choose(name, value) {
    chosen[name] = value;
    setQuery({ [name]: value });
    onChange();
  }

  function offer(options) {
    for (const [name, ids] of Object.entries(options)) {
      const all = chosen[name] && !ids.includes(chosen[name]) ? [...ids, chosen[name]] : ids;
      fill(
        selects[name],
        ["", ...all].map((id) =>
          h("option", { value: id, selected: id === chosen[name] }, id || `any ${name}`),
        ),
      );
    }
  }

  offer({ user: [], key: [] });
  return { element: h("span.filters", null, Object.values(selects)), values: () => ({ ...chosen }), offer };
}
