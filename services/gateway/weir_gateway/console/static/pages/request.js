// One request: why it is as it is, in sentences; where its time went; every event; how to repeat it.

import { get, pathOf } from "../lib/api.js";
import { append, fill, h } from "../lib/dom.js";
import { count, duration, isKnown, money, UNKNOWN, words } from "../lib/format.js";
import { poll } from "../lib/poll.js";
import { facts, failure, named, notice, time } from "../components/bits.js";
import { card } from "../components/card.js";
import { copyable, copyButton } from "../components/copy.js";
import { stateBadge } from "../components/request_state.js";
import { stats } from "../components/stats.js";
import { plainTable } from "../components/table.js";
import { timeline } from "../components/timeline.js";
import { waterfall } from "../components/waterfall.js";

const REFRESH_S = 2;

/** Draws the page. */
export function open(root, { params, session, signal, setCrumbs }) {
  setCrumbs(params.request);
  const trouble = h("div");
  const body = h("div.stack");
  append(root, [trouble, body]);
  let drawn = "";

  async function read() {
    try {
      const answer = await get(pathOf("requests", params.request), {}, signal);
      fill(trouble);
      const text = JSON.stringify(answer);
      if (text !== drawn) draw(body, answer, session);
      drawn = text;
      if (answer.summary.state === "ended" || answer.summary.state === "refused") ended(answer);
    } catch (error) {
      if (signal.aborted) return;
      if (error.status === 404) unknown(error);
      else fill(trouble, failure(error, refresh));
      throw error;
    }
  }

  const own = new AbortController();
  signal.addEventListener("abort", () => own.abort());
  const refresh = poll(read, REFRESH_S, own.signal);

  /** Once its account is closed nothing changes any more. */
  function ended({ events }) {
    if (events.some((event) => event.kind === "settled" || event.kind === "refused")) own.abort();
  }

  function unknown(error) {
    own.abort();
    fill(trouble, failure(error));
  }
}

function draw(body, answer, session) {
  const { summary, explanation, refusal } = answer;
  fill(
    body,
    h(
      "div.title-row",
      null,
      stateBadge(summary),
      copyable(summary.request_id, "request id"),
      summary.trace_id && ["trace ", copyable(summary.trace_id, "trace id")],
      h("span.grow"),
      copyButton("weir explain", () => `weir explain ${summary.request_id}`, "Command"),
      copyButton("curl", () => curlOf(summary), "curl command"),
    ),
    h(
      "section.card.explained",
      { "aria-label": "Explanation" },
      h(
        "div.pad",
        null,
        explanation.map((sentence) => h("p", null, sentence)),
      ),
    ),
    answer.missing?.length ? notice("warn", "Not all of it could be asked.", answer.missing.join(" ")) : null,
    refusal && refusalCard(refusal),
    figures(summary, answer.phases),
    h(
      "div.grid",
      null,
      card("Where the time went", { span: 8 }, waterfall(answer.phases, summary)),
      card("Request", { span: 4 }, factsOf(answer, session)),
      card("Timeline", { span: 12 }, timeline(answer.events)),
    ),
  );
}

function figures(summary, phases) {
  const lives = ["queued", "running"].includes(summary.state);
  const box = stats([
    ["ttft", "Time to first token"],
    ["itl", "Per output token"],
    ["took", lives ? "So far" : "Took"],
    ["queue", "In the queue"],
    ["prompt", "Prompt"],
    ["output", "Output"],
  ]);
  const generating =
    isKnown(summary.ttft_s) && isKnown(summary.duration_s) && summary.output_tokens > 1
      ? (summary.duration_s - summary.ttft_s) / (summary.output_tokens - 1)
      : null;
  const set = (key, seconds, under) => {
    const [value, unit] = duration(seconds).split(" ");
    box.set(key, value, unit, under);
  };
  set("ttft", summary.ttft_s);
  set("itl", generating, generating ? `${(1 / generating).toFixed(1)} tokens/s` : "");
  set("took", lives ? secondsBetween(summary.arrival_time, Date.now()) : summary.duration_s);
  set("queue", summary.queue_s ?? queuedOf(phases));
  box.set(
    "prompt",
    count(summary.prompt_tokens),
    "tokens",
    summary.cached_tokens ? `${count(summary.cached_tokens)} from the cache` : "",
  );
  box.set("output", count(summary.output_tokens), "tokens");
  return box.element;
}

/** Seconds of a wait that is over, while its request still runs. */
function queuedOf(phases) {
  const queue = phases.find((phase) => phase.name === "queue" && phase.end_time);
  return queue && secondsBetween(queue.start_time, Date.parse(queue.end_time));
}

/** Two clocks may differ by more than the time that has passed. */
const secondsBetween = (start, end) => Math.max(0, (end - Date.parse(start)) / 1000);

function factsOf({ summary, charge }, session) {
  const worker =
    summary.worker &&
    (session.pages.includes("workers")
      ? h("a", { href: `/console/kv/${encodeURIComponent(summary.worker)}` }, summary.worker)
      : summary.worker);
  const tenant =
    summary.tenant &&
    h("a", { href: `/console/tenants/${encodeURIComponent(summary.tenant)}` }, named(summary.tenant));
  return facts([
    ["Tenant", tenant || UNKNOWN],
    ["User", summary.user || UNKNOWN],
    ["API key", summary.key || UNKNOWN],
    ["Model", summary.model || UNKNOWN],
    ["Worker", worker || UNKNOWN],
    ["Outcome", summary.outcome ? words(summary.outcome) : summary.state],
    summary.reason && ["Reason", summary.reason],
    ["Arrived", time(summary.arrival_time)],
    ["Ended", time(summary.end_time)],
    charge && ["Charged", `${count(charge.total_tokens)} tokens, ${money(charge.amount)}`],
    summary.attempts > 1 && ["Attempts", count(summary.attempts)],
    summary.degradations?.length > 0 && ["Lesser form", summary.degradations.map(words).join(", ")],
  ]);
}

function refusalCard(refusal) {
  const rows = (refusal.limits ?? []).map((limit) => [
    limit.limit_id,
    count(limit.limit),
    count(limit.used),
    count(limit.requested),
    time(limit.reset_time),
    limit.knob || UNKNOWN,
  ]);
  return h(
    "section.card",
    { "aria-label": "Refusal" },
    h("header", null, h("h2", null, refusal.reason), h("span.soft", null, refusal.message)),
    rows.length
      ? plainTable(
          "Limits that it did not fit in",
          ["Limit", "#Allows", "#In use", "#Asked for", "Next reset", "Turn"],
          rows,
        )
      : null,
    h("div.pad"),
  );
}

/** What repeats a request of this model; the prompt is nowhere kept, so it is to be filled in. */
function curlOf(summary) {
  const body = JSON.stringify({
    model: summary.model ?? "MODEL",
    messages: [{ role: "user", content: "Hello" }],
    max_tokens: Math.max(1, summary.output_tokens ?? 32),
    stream: true,
  });
  return `curl -sN ${location.origin}/v1/chat/completions -H "authorization: Bearer $WEIR_API_KEY" -H "content-type: application/json" -d '${body}'`;
}
