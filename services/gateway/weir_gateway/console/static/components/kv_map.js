// Blocks as small squares in their order: colour says whose, filling says the state.
// A pointer or the arrow keys read one out.

import { announce, fill, h, setText } from "../lib/dom.js";
import { count, plural } from "../lib/format.js";
import { color, onTheme } from "../lib/theme.js";
import { seriesOf } from "../lib/colors.js";
import { swatch } from "./bits.js";

const GAP = 2;
const MOST_HEIGHT = 440;
const STATES = {
  held: "of running requests",
  cached: "kept for prompts that begin alike, given up when needed",
  pinned: "of sessions and prefixes that are kept",
  stranded: "of requests that are gone, until the worker's check takes them back",
  free: "empty",
};

export class KvMap {
  constructor(signal) {
    this.canvas = h("canvas", { tabIndex: 0, role: "img", "aria-label": "Map of KV blocks" });
    this.read = h(
      "div.kv-read",
      { role: "status" },
      "Point at a block, or focus the map and use the arrow keys.",
    );
    this.legend = h("div");
    this.element = h("div.kv-figure", null, this.legend, this.canvas, this.read);
    this.at = null;
    this.only = "";
    this.canvas.addEventListener("pointermove", (event) => this.#point(event));
    this.canvas.addEventListener("pointerleave", () => this.#mark(null));
    this.canvas.addEventListener("keydown", (event) => this.#key(event));
    const sizes = new ResizeObserver(() => this.#draw());
    sizes.observe(this.element);
    onTheme(() => this.#draw(), signal);
    signal.addEventListener("abort", () => sizes.disconnect());
  }

  /** Shows what a worker told. */
  show(blocks) {
    this.blocks = blocks;
    const parts = Object.entries(blocks.states)
      .map(([state, number]) => `${count(number)} ${state}`)
      .join(", ");
    this.canvas.setAttribute(
      "aria-label",
      `Map of ${plural(blocks.total_blocks, "KV block")}: ${parts}. Use the arrow keys to read single blocks; the table tells the sums.`,
    );
    this.#drawLegend();
    this.#draw();
  }

  #drawLegend() {
    const tenants = this.blocks.owners.map((owner) => owner.tenant).filter(Boolean);
    const key = `${tenants}|${this.only}`;
    if (key === this.legendKey) return;
    this.legendKey = key;
    fill(
      this.legend,
      h(
        "div.legend",
        null,
        tenants.map((tenant) =>
          h(
            "button",
            {
              type: "button",
              "aria-pressed": String(this.only === tenant),
              title: `Show ${tenant} alone`,
              onclick: () => this.#focusOn(tenant),
            },
            swatch(tenant),
            tenant,
          ),
        ),
        h(
          "span.keys-of-states",
          null,
          Object.keys(STATES).map((state) =>
            h("span", { class: `state-key ${state}`, title: STATES[state] }, state),
          ),
        ),
      ),
    );
  }

  #focusOn(tenant) {
    this.only = this.only === tenant ? "" : tenant;
    this.#drawLegend();
    this.#draw();
    [...this.legend.querySelectorAll("button")].find((button) => button.textContent === tenant)?.focus();
  }

  /** Edge of a square so that all fit the width and a bearable height. */
  #layout() {
    const width = this.element.clientWidth;
    const total = Math.max(1, this.blocks.total_blocks);
    let size = 16;
    while (
      size > 3 &&
      Math.ceil(total / Math.max(1, Math.floor(width / (size + GAP)))) * (size + GAP) > MOST_HEIGHT
    )
      size -= 1;
    const columns = Math.max(1, Math.floor(width / (size + GAP)));
    return { width, size, columns, height: Math.ceil(total / columns) * (size + GAP) };
  }

  #draw() {
    if (!this.blocks || !this.element.clientWidth) return;
    const layout = this.#layout();
    this.layout = layout;
    const ratio = devicePixelRatio || 1;
    this.canvas.width = layout.width * ratio;
    this.canvas.height = layout.height * ratio;
    this.canvas.style.height = `${layout.height}px`;
    const pen = this.canvas.getContext("2d");
    pen.scale(ratio, ratio);
    const colors = this.#colors();
    for (const run of this.blocks.runs) {
      for (let block = run.first; block < run.first + run.blocks; block += 1)
        this.#square(pen, colors, run, block);
    }
    if (this.at !== null) this.#outline(pen, colors.ink);
  }

  #colors() {
    const names = Object.fromEntries(
      this.blocks.owners.map(({ tenant }) => [tenant, color(tenant ? seriesOf(tenant) : "ink-3")]),
    );
    return {
      of: names,
      free: color("sunken"),
      line: color("line-strong"),
      ink: color("ink"),
      bad: color("bad"),
    };
  }

  #square(pen, colors, run, block) {
    const { size, columns } = this.layout;
    const [x, y] = [(block % columns) * (size + GAP), Math.floor(block / columns) * (size + GAP)];
    const own = colors.of[run.tenant] ?? colors.line;
    pen.globalAlpha = this.only && run.tenant !== this.only ? 0.12 : 1;
    pen.fillStyle = run.state === "free" ? colors.free : run.state === "stranded" ? colors.bad : own;
    if (run.state === "cached") pen.globalAlpha *= 0.42;
    pen.fillRect(x, y, size, size);
    if (run.state === "pinned") {
      pen.fillStyle = colors.ink;
      pen.fillRect(x + size / 4, y + size / 4, size / 2, size / 2);
    }
    pen.globalAlpha = 1;
  }

  #outline(pen, ink) {
    const { size, columns } = this.layout;
    pen.strokeStyle = ink;
    pen.lineWidth = 2;
    pen.strokeRect(
      (this.at % columns) * (size + GAP),
      Math.floor(this.at / columns) * (size + GAP),
      size,
      size,
    );
  }

  #point(event) {
    if (!this.layout) return;
    const { size, columns } = this.layout;
    const column = Math.floor(event.offsetX / (size + GAP));
    const block = Math.floor(event.offsetY / (size + GAP)) * columns + column;
    this.#mark(column < columns && block < this.blocks.total_blocks ? block : null);
  }

  #key(event) {
    const step = {
      ArrowLeft: -1,
      ArrowRight: 1,
      ArrowUp: -this.layout?.columns,
      ArrowDown: this.layout?.columns,
      Home: -1e9,
      End: 1e9,
    }[event.key];
    if (!step || !this.blocks) return;
    event.preventDefault();
    this.#mark(Math.min(this.blocks.total_blocks - 1, Math.max(0, (this.at ?? (step > 0 ? -1 : 0)) + step)));
    announce(this.read.textContent);
  }

  #mark(block) {
    if (block === this.at) return;
    this.at = block;
    setText(
      this.read,
      block === null ? "Point at a block, or focus the map and use the arrow keys." : this.#wordsOf(block),
    );
    this.#draw();
  }

  #wordsOf(block) {
    const run = this.blocks.runs.find((each) => block >= each.first && block < each.first + each.blocks);
    if (!run) return `Block ${count(block)}: not told`;
    const whose = run.tenant ? ` by ${run.tenant}` : "";
    return `Block ${count(block)}: ${run.state}${run.state === "free" ? "" : whose}, one of ${plural(run.blocks, "block")} from ${count(run.first)} on`;
  }
}
