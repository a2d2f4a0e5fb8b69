// The directory: plans with their limits, models, pools, as every service holds them now.

import { get } from "../lib/api.js";
import { append, fill, h } from "../lib/dom.js";
import { count, short, UNKNOWN, words } from "../lib/format.js";
import { poll } from "../lib/poll.js";
import { badge, empty, facts, failure } from "../components/bits.js";
import { card } from "../components/card.js";
import { stats } from "../components/stats.js";
import { plainTable } from "../components/table.js";

const REFRESH_S = 10;

/** Draws the page. */
export function open(root, { signal }) {
  const trouble = h("div");
  const body = h("div.stack");
  append(root, [trouble, body]);
  let version = null;

  async function read() {
    try {
      const answer = await get("directory", {}, signal);
      fill(trouble);
      if (answer.version !== version) draw(body, answer);
      version = answer.version;
    } catch (error) {
      if (!signal.aborted) fill(trouble, failure(error, refresh));
      throw error;
    }
  }

  const refresh = poll(read, REFRESH_S, signal);
}

function draw(body, directory) {
  const kinds = ["tenants", "users", "keys", "plans", "models", "pools"];
  const figures = stats([
    ["source", "Kept in a"],
    ...kinds.map((kind) => [kind, kind[0].toUpperCase() + kind.slice(1)]),
  ]);
  figures.set("source", directory.source, "", `version ${directory.version}`);
  for (const kind of kinds) figures.set(kind, count(directory.counts[kind]));
  fill(
    body,
    figures.element,
    card("Models", { bare: true }, modelTable(directory.models)),
    h(
      "div.grid",
      null,
      directory.plans.map((plan) =>
        card(`Plan ${plan.id}`, { span: 6 }, limitList(plan.limits), policyOf(plan.policy)),
      ),
    ),
    h(
      "div.grid",
      null,
      card("Limits of the whole cluster", { span: 6 }, limitList(directory.cluster_limits)),
      card(
        "Pools",
        { span: 6 },
        directory.pools.length
          ? directory.pools.map(poolView)
          : h("p.muted", null, "None is configured: every model has one of its own."),
      ),
    ),
  );
}

function modelTable(models) {
  if (!models.length)
    return empty(
      "No model",
      "Nothing can be served until the directory has a model.",
      "weir models served put -f model.yaml",
    );
  return plainTable(
    "Models",
    [
      "Model",
      "Aliases",
      "Versions by weight",
      "Pool",
      "#Longest context",
      "#In, per M tokens",
      "#Cached",
      "#Out",
    ],
    models.map((model) => [
      model.name,
      model.aliases?.join(", ") || UNKNOWN,
      model.versions.map(({ version, weight }) => `${version}: ${weight}`).join(", "),
      model.pool || "own",
      count(model.max_context_tokens),
      ...["input", "cached_input", "output"].map((kind) => perMillion(model.price?.[kind])),
    ]),
  );
}

/** Prices are of a token; people compare those of a million. */
const perMillion = (price) => (price ? short(Number(price) * 1e6) : UNKNOWN);

function limitList(limits) {
  if (!limits?.length) return h("p.muted", null, "No limit.");
  return facts(
    limits.map((limit) => [
      h("span.mono", null, limit.id),
      [
        limit.text.replace(/\d{4,}/g, (digits) => count(Number(digits))),
        " ",
        limit.shadow && badge("shadow"),
      ],
    ]),
  );
}

function policyOf(policy) {
  const entries = flat(policy ?? {});
  if (!entries.length) return null;
  return h(
    "div.policy",
    null,
    h("h3", null, "Policy"),
    facts(entries.map(([name, value]) => [words(name), value])),
  );
}

function poolView({ name, ...rest }) {
  return h(
    "div.policy",
    null,
    h("h3", null, name),
    facts(flat(rest).map(([key, value]) => [words(key), value])),
  );
}

/** Nested settings as names with dots and texts. */
function flat(value, prefix = "") {
  return Object.entries(value).flatMap(([key, inner]) => {
    if (inner === null || inner === "" || (Array.isArray(inner) && !inner.length)) return [];
    if (typeof inner === "object" && !Array.isArray(inner)) return flat(inner, `${prefix}${key}.`);
    return [
      [
        prefix + key,
        Array.isArray(inner)
          ? inner.map((each) => (typeof each === "object" ? JSON.stringify(each) : each)).join(", ")
          : String(inner).replace(/^[A-Z]+(?:_[A-Z]+)+$/, (name) => words(withoutField(name, key))),
      ],
    ];
  });
}

/** A value of an enumeration names its field first: `ISOLATION_SHARED` of `isolation` is SHARED. */
function withoutField(name, key) {
  const field = `${key.toUpperCase()}_`;
  return name.startsWith(field) ? name.slice(field.length) : name;
}
