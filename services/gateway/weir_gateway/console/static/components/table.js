// A table that stays quick with thousands of rows: only those in sight are in the page.
//
// Rows are of one height. Those above and below the window are two empty rows of the right height,
// so the scroll bar tells the truth; `aria-rowcount` and `aria-rowindex` tell screen readers.

import { append, fill, h } from "../lib/dom.js";
import { compareBy, nextSort } from "../lib/sorting.js";

const ROW = 34;
const SPARE = 12;
const VIRTUAL_FROM = 120;

/**
 * A table.
 *
 * @param {object} options
 *   columns: `{key, label, cell(row), value?(row), number?, low?, wide?}`; with `value` it sorts
 *   rowKey: (row) => unique text
 *   open?: (row) => path that a row leads to
 *   sort?: `{key, down}` at first
 *   label: what the table holds
 *   empty?: node for no rows
 */
export class Table {
  constructor(options) {
    this.options = options;
    this.sort = options.sort ?? null;
    this.rows = [];
    this.drawn = new Map();
    this.body = h("tbody");
    this.foot = h("tfoot");
    this.headRow = h("tr");
    this.table = h(
      "table",
      { "aria-label": options.label },
      h("thead", null, this.headRow),
      this.body,
      this.foot,
    );
    this.nothing = h("div", { hidden: true });
    this.element = h("div.table-wrap", { tabIndex: -1 }, this.table, this.nothing);
    this.above = spacer(options.columns.length);
    this.below = spacer(options.columns.length);
    this.element.addEventListener("scroll", () => this.#draw(), { passive: true });
    this.body.addEventListener("keydown", (event) => this.#key(event));
    this.#drawHead();
  }

  /** Shows these rows in place of those of before; focus and scroll stay. */
  setRows(rows) {
    this.all = rows;
    this.rows = this.sort ? [...rows].sort(this.#compare()) : rows;
    this.table.hidden = rows.length === 0;
    this.nothing.hidden = rows.length > 0;
    if (rows.length === 0) fill(this.nothing, this.options.empty ?? "Nothing here.");
    this.table.setAttribute("aria-rowcount", rows.length + 1);
    this.element.classList.toggle("tall", rows.length > VIRTUAL_FROM);
    this.#draw(true);
  }

  /** Cells under the rows, such as totals. */
  setFoot(cells) {
    fill(this.foot, cells && h("tr", null, cells));
  }

  #compare() {
    const column = this.options.columns.find((each) => each.key === this.sort.key);
    return compareBy(column.value, this.sort.down);
  }

  #drawHead() {
    fill(
      this.headRow,
      this.options.columns.map((column) => {
        const sorted = this.sort?.key === column.key && (this.sort.down ? "descending" : "ascending");
        const text = column.value
          ? h("button", { type: "button", onclick: () => this.#sortBy(column) }, column.label)
          : column.label;
        return h("th", { scope: "col", class: classOf(column), "aria-sort": sorted || null }, text);
      }),
    );
  }

  #sortBy(column) {
    this.sort = nextSort(this.sort, column);
    const index = this.options.columns.indexOf(column);
    this.#drawHead();
    this.headRow.children[index].querySelector("button").focus();
    this.setRows(this.all ?? []);
  }

  #draw(changed = false) {
    const [from, to] = this.#window();
    if (!changed && from === this.from && to === this.to) return;
    [this.from, this.to] = [from, to];
    const kept = new Map();
    const elements = [];
    for (let index = from; index < to; index += 1) {
      const row = this.rows[index];
      const key = this.options.rowKey(row);
      const element = this.drawn.get(key) ?? this.#newRow(row);
      if (changed || !this.drawn.has(key)) this.#fillRow(element, row);
      element.setAttribute("aria-rowindex", index + 2);
      element.rowIndexInAll = index;
      kept.set(key, element);
      elements.push(element);
    }
    this.drawn = kept;
    this.above.style.height = `${from * ROW}px`;
    this.below.style.height = `${(this.rows.length - to) * ROW}px`;
    place(this.body, [this.above.element, ...elements, this.below.element]);
  }

  #window() {
    if (this.rows.length <= VIRTUAL_FROM) return [0, this.rows.length];
    const first = Math.floor(this.element.scrollTop / ROW);
    const seen = Math.ceil(innerHeight / ROW);
    return [Math.max(0, first - SPARE), Math.min(this.rows.length, first + seen + SPARE)];
  }

  #newRow(row) {
    const element = h(
      "tr",
      null,
      this.options.columns.map((column) => h("td", { class: classOf(column) })),
    );
    const path = this.options.open?.(row);
    if (path) {
      element.classList.add("opens");
      element.tabIndex = 0;
      element.addEventListener("click", (event) => {
        if (!event.target.closest("a, button") && !getSelection().toString()) go(path);
      });
    }
    return element;
  }

  #fillRow(element, row) {
    this.options.columns.forEach((column, index) => {
      const cell = element.children[index];
      const content = column.cell(row);
      const text = typeof content === "string" ? content : null;
      if (text !== null && cell.firstElementChild === null && cell.textContent === text) return;
      if (text === null && content?.isEqualNode?.(cell.firstChild) && cell.childNodes.length === 1) return;
      fill(cell, content);
      if (column.wide && text !== null) cell.title = text;
    });
  }

  #key(event) {
    const row = event.target.closest("tr");
    if (event.target !== row) return;
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 15, PageUp: -15, Home: -1e9, End: 1e9 }[event.key];
    if (step) {
      event.preventDefault();
      this.#focus(Math.min(this.rows.length - 1, Math.max(0, row.rowIndexInAll + step)));
    } else if (event.key === "Enter") {
      go(this.options.open(this.rows[row.rowIndexInAll]));
    }
  }

  #focus(index) {
    if (this.rows.length > VIRTUAL_FROM) {
      const top = index * ROW;
      const { scrollTop, clientHeight } = this.element;
      if (top < scrollTop) this.element.scrollTop = top;
      else if (top + 2 * ROW > scrollTop + clientHeight)
        this.element.scrollTop = top + 2 * ROW - clientHeight;
      this.#draw();
    }
    this.drawn.get(this.options.rowKey(this.rows[index]))?.focus();
  }
}

/** Children in this order, moving as few as can be: a row that keeps its place keeps its focus. */
function place(parent, children) {
  const wanted = new Set(children);
  for (const child of [...parent.children]) if (!wanted.has(child)) child.remove();
  children.forEach((child, index) => {
    if (parent.children[index] !== child) parent.insertBefore(child, parent.children[index] ?? null);
  });
}

function spacer(columns) {
  const cell = h("td", { colSpan: columns });
  return { element: h("tr", { "aria-hidden": "true" }, cell), style: cell.style };
}

const classOf = (column) =>
  ["number", "wide", "wrap"]
    .filter((name) => column[name])
    .concat(column.low ? `low-${column.low}` : [])
    .join(" ");

function go(path) {
  document.dispatchEvent(new CustomEvent("weir:go", { detail: path }));
}

/** A small table of cells as they are. A head begins with `#`: numbers; `~`: not on a phone. */
export function plainTable(label, heads, rows) {
  const classes = heads.map(
    (text) => `${/^~?#/.test(text) ? "number" : ""} ${text.startsWith("~") ? "low-2" : ""}`,
  );
  const body = rows.map((cells) =>
    h(
      "tr",
      null,
      cells.map((cell, index) => {
        const element = h("td", { class: classes[index] });
        append(element, [cell]);
        return element;
      }),
    ),
  );
  const head = heads.map((text, index) =>
    h("th", { scope: "col", class: classes[index] }, text.replace(/^[~#]+/, "")),
  );
  return h(
    "div.table-wrap",
    null,
    h("table", { "aria-label": label }, h("thead", null, h("tr", null, head)), h("tbody", null, body)),
  );
}
