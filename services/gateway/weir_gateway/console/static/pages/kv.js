// The KV blocks of a worker: whose each is and in what state, as a map and as a table.

import { get, pathOf } from "../lib/api.js";
import { append, fill, h } from "../lib/dom.js";
import { count, percent, short } from "../lib/format.js";
import { nameSeries } from "../lib/colors.js";
import { poll } from "../lib/poll.js";
import { empty, failure, named, notice } from "../components/bits.js";
import { card, drawCard } from "../components/card.js";
import { KvMap } from "../components/kv_map.js";
import { stats } from "../components/stats.js";
import { plainTable } from "../components/table.js";
import { go } from "../app/router.js";

const REFRESH_S = 3;
/** Draws the page. */
export async function open(root, { params, signal, setCrumbs }) {
  const trouble = h("div");
  append(root, [trouble]);
  const workers = await readWorkers(trouble, signal);
  if (signal.aborted || !workers) return;
  if (!workers.length) {
    append(root, [
      empty("No worker", "The map shows the blocks of a worker; none is registered.", "weir up --workers 1"),
    ]);
    return;
  }
  const worker = params.worker ?? workers[0].id;
  if (params.worker) setCrumbs(worker);
  const figures = stats([
    ["total", "Blocks"],
    ["held", "Held"],
    ["cached", "Cached"],
    ["pinned", "Pinned"],
    ["free", "Free"],
    ["stranded", "Stranded"],
  ]);
  const map = new KvMap(signal);
  const bounded = h("div");
  const owners = h("div");
  append(root, [
    h("div.filters", null, h("label", null, "Worker ", chooser(workers, worker))),
    figures.element,
    bounded,
    h(
      "div.grid",
      null,
      card("Blocks in order", { span: 8 }, map.element),
      card("By tenant", { span: 4, bare: true }, owners),
    ),
  ]);

  async function read() {
    try {
      const answer = await get(pathOf("workers", worker, "kv"), {}, signal);
      fill(trouble);
      drawCard(trouble, answer, (blocks) => {
        nameSeries(blocks.owners.map((owner) => owner.tenant).filter(Boolean));
        if (blocks.known === false) {
          fill(
            trouble,
            notice("warn", "Not known now.", blocks.why ?? "The worker tells nothing of its blocks."),
          );
          return;
        }
        drawFigures(figures, blocks);
        map.show(blocks);
        fill(
          bounded,
          blocks.bounded &&
            notice(
              "",
              "Cut short.",
              "The worker has more runs of blocks than are sent at once; the sums are of all blocks.",
            ),
        );
        drawOwners(owners, blocks);
      });
    } catch (error) {
      if (!signal.aborted) fill(trouble, failure(error, refresh));
      throw error;
    }
  }

  const refresh = poll(read, REFRESH_S, signal);
}

async function readWorkers(trouble, signal) {
  try {
    const answer = await get("workers", {}, signal);
    if (answer.error) fill(trouble, failure(answer.error));
    return answer.data;
  } catch (error) {
    if (!signal.aborted) fill(trouble, failure(error));
    return null;
  }
}

function chooser(workers, worker) {
  const ids = [...new Set([...workers.map((each) => each.id), worker])];
  return h(
    "select.select",
    { onchange: (event) => go(`/console/kv/${encodeURIComponent(event.target.value)}`) },
    ids.map((id) => h("option", { value: id, selected: id === worker }, id)),
  );
}

function drawFigures(figures, { states, total_blocks: total, block_tokens: size }) {
  figures.set("total", count(total), "", `${short(total * size)} tokens, ${size} a block`);
  for (const state of ["held", "cached", "pinned", "free", "stranded"]) {
    figures.set(
      state,
      count(states[state]),
      "",
      percent(total ? states[state] / total : null),
      state === "stranded" && states[state] ? "bad" : "",
    );
  }
}

function drawOwners(box, { owners, total_blocks: total }) {
  if (!owners.length)
    return fill(
      box,
      empty(
        "No block is used",
        "Blocks show here with their tenants once a request runs.",
        "weir chat",
      ),
    );
  return fill(
    box,
    plainTable(
      "Blocks by tenant",
      ["Tenant", "#Held", "#Cached", "#Pinned", "#Share"],
      owners.map((owner) => [
        owner.tenant ? named(owner.tenant) : "shared",
        count(owner.held),
        count(owner.cached),
        count(owner.pinned),
        percent(total ? owner.total / total : null),
      ]),
    ),
  );
}
