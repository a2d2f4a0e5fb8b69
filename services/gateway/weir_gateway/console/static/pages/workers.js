// Workers: what each does, how full it is; draining one, and taking that back.

import { get, pathOf, post } from "../lib/api.js";
import { append, fill, h } from "../lib/dom.js";
import { count, duration, percent, plural } from "../lib/format.js";
import { poll } from "../lib/poll.js";
import { badge, empty, failure, since } from "../components/bits.js";
import { card, drawCard } from "../components/card.js";
import { confirmed } from "../components/dialog.js";
import { meter } from "../components/meter.js";
import { plainTable } from "../components/table.js";
import { toast } from "../components/toast.js";

const REFRESH_S = 3;
const TONES = { ready: "good", draining: "warn", suspect: "warn", lost: "bad" };

/** Draws the page. */
export function open(root, { signal }) {
  const trouble = h("div");
  const box = h("div");
  append(root, [trouble, card("", { bare: true }, box)]);
  let drawn = "";

  async function read() {
    try {
      const answer = await get("workers", {}, signal);
      fill(trouble);
      const text = JSON.stringify(answer);
      if (text !== drawn && !document.querySelector("dialog[open]"))
        drawCard(box, answer, (workers) => keepFocus(box, () => draw(workers, box, change)));
      drawn = text;
    } catch (error) {
      if (!signal.aborted) fill(trouble, failure(error, refresh));
      throw error;
    }
  }

  async function change(worker, action) {
    const [title, text, yes] = QUESTIONS[action](worker);
    if (!(await confirmed(title, text, yes, action === "drain"))) return;
    try {
      await post(pathOf("workers", worker.id, action));
      toast(`${worker.id}: ${action === "drain" ? "draining" : "takes work again"}`);
    } catch (error) {
      fill(trouble, failure(error));
    }
    refresh();
  }

  const refresh = poll(read, REFRESH_S, signal);
}

const QUESTIONS = {
  drain: (worker) => [
    `Drain ${worker.id}?`,
    h(
      "div",
      null,
      h(
        "p",
        null,
        `It gets nothing new, ends the ${plural(worker.running + worker.pending, "request")} that it has, and leaves. Requests that wait go to other workers.`,
      ),
      h("p.muted", null, "The same from a terminal: ", h("code", null, `weir workers drain ${worker.id}`)),
    ),
    "Drain",
  ],
  undrain: (worker) => [
    `Let ${worker.id} work again?`,
    h("p", null, "It gets new requests at once, unless it has left already."),
    "Take back",
  ],
};

/** Draws anew and gives the focus back to the same control. */
function keepFocus(box, redraw) {
  const name = box.contains(document.activeElement) ? document.activeElement.dataset.control : null;
  redraw();
  if (name)
    [...box.querySelectorAll("[data-control]")].find((each) => each.dataset.control === name)?.focus();
}

function draw(workers, box, change) {
  if (!workers.length)
    return fill(
      box,
      empty("No worker", "Requests wait until one registers with the scheduler.", "weir up --workers 1"),
    );
  const rows = workers.map((worker) => [
    h("a.mono", { href: `/console/kv/${encodeURIComponent(worker.id)}`, title: "Its KV blocks" }, worker.id),
    h(
      "span",
      { title: worker.state_reason },
      badge(worker.state, TONES[worker.state] ?? ""),
      worker.state_reason && h("span.muted", null, ` ${worker.state_reason}`),
    ),
    h(
      "span",
      null,
      worker.model,
      h("span.muted", null, ` ${worker.model_version}, ${worker.pool || "own pool"}`),
    ),
    h(
      "span",
      null,
      count(worker.running),
      worker.max_running && h("span.muted", null, ` of ${count(worker.max_running)}`),
    ),
    count(worker.pending),
    meter({
      share: worker.kv_use,
      label: `KV blocks of ${worker.id} held`,
      words: [`${count(worker.kv_held_blocks)} of ${count(worker.kv_blocks)}`, percent(worker.kv_use)],
    }),
    percent(worker.prefix_hit_rate),
    duration(worker.step_s),
    h("span", { title: worker.device }, percent(worker.device_use)),
    count(worker.preemptions),
    since(worker.last_report_time),
    button(worker, change),
  ]);
  fill(
    box,
    plainTable(
      "Workers",
      [
        "Worker",
        "State",
        "~Model, pool",
        "~#Running",
        "~#Pending",
        "KV blocks held",
        "~#Prefix hits",
        "~#Step",
        "~#Device",
        "~#Preempted",
        "~Last report",
        "Action",
      ],
      rows,
    ),
  );
}

function button(worker, change) {
  const action = worker.state === "draining" ? "undrain" : "drain";
  const label = action === "drain" ? "Drain" : "Take back";
  return h(
    "button.button.small",
    {
      type: "button",
      class: action === "drain" ? "danger" : "",
      disabled: worker.state === "lost",
      data: { control: `${action}-${worker.id}` },
      "aria-label": `${label} ${worker.id}`,
      onclick: () => change(worker, action),
    },
    label,
  );
}
