// A chart over time: lines, a legend that is also the read-out, keys to walk along it.

import uPlot from "../vendor/uplot/uPlot.esm.js";
import { announce, fill, h, setText } from "../lib/dom.js";
import { color, onTheme } from "../lib/theme.js";
import { instant, UNKNOWN } from "../lib/format.js";
import { lonePoints } from "../lib/lone_points.js";

/**
 * A chart.
 *
 * @param {object} options
 *   title; series: `[{key, label, color}]`, colour by token; format: number to text with its unit;
 *   span: columns of 12; height in px; area: fill under the lines; group: charts that share a cursor
 * @param {AbortSignal} signal ends it
 * @returns {{element: HTMLElement, setData: (times: string[], series: object) => void}}
 */
export function timeChart(
  { title, series, format, span = 6, height = 150, area = false, group, top = null },
  signal,
) {
  const canvasBox = h("div.plot");
  const values = series.map(() => h("span.value"));
  const when = h("span.aside");
  const legend = h(
    "ul.legend",
    null,
    series.map((one, index) =>
      h(
        "li",
        null,
        h("span.swatch", { vars: { "--swatch": `var(--${one.color})` } }),
        one.label,
        values[index],
      ),
    ),
  );
  const figure = h("figure.chart", { tabIndex: 0, role: "img", "aria-label": title }, canvasBox);
  const element = h(
    `section.card.span-${span}`,
    { "aria-label": title },
    h("header", null, h("h2", null, title), when),
    legend,
    h("div.pad", null, figure),
  );

  let data = [[], ...series.map(() => [])];
  let plot = null;
  let length = 0;

  function readOut(index) {
    const at = index ?? lastKnown(data);
    series.forEach((one, which) =>
      setText(values[which], at === null ? UNKNOWN : format(data[which + 1][at])),
    );
    setText(
      when,
      index === null || index === undefined || !data[0].length
        ? ""
        : instant(new Date(data[0][index] * 1000).toISOString()),
    );
  }

  function build() {
    plot?.destroy();
    fill(canvasBox);
    plot = new uPlot(
      optionsOf({
        axisLength: () => length,
        series,
        format,
        height,
        area,
        group,
        top,
        width: canvasBox.clientWidth || 300,
        readOut,
      }),
      data,
      canvasBox,
    );
  }

  const sizes = new ResizeObserver(() => plot?.setSize({ width: canvasBox.clientWidth, height }));
  requestAnimationFrame(() => {
    if (signal.aborted) return;
    build();
    sizes.observe(canvasBox);
  });
  onTheme(build, signal);
  signal.addEventListener("abort", () => {
    sizes.disconnect();
    plot?.destroy();
  });
  figure.addEventListener("keydown", (event) =>
    walk(event, plot, data, () => announce(spoken(when, series, values))),
  );
  figure.addEventListener("blur", () => {
    plot?.setCursor({ left: -10, top: -10 });
  });

  return {
    element,
    /** Shows columns over times; with `seconds` the axis has that length, whatever is known. */
    setData(times, columns, seconds = 0) {
      length = seconds;
      data = [
        times.map((text) => Date.parse(text) / 1000),
        ...series.map((one) => columns[one.key] ?? times.map(() => null)),
      ];
      plot?.setData(data);
      if (!plot || plot.cursor.idx === null || plot.cursor.idx === undefined) readOut(null);
      figure.setAttribute(
        "aria-label",
        `${title}. ${summary(series, data, format)} Use the arrow keys to walk along it.`,
      );
    },
  };
}

function optionsOf({ axisLength, series, format, height, area, group, top, width, readOut }) {
  const [ink, line] = [color("ink-3"), color("line")];
  const axis = {
    stroke: ink,
    grid: { stroke: line, width: 1 },
    ticks: { show: false },
    font: "11px Inter, system-ui, sans-serif",
  };
  return {
    width,
    height,
    padding: [8, 8, 0, 0],
    legend: { show: false },
    cursor: { y: false, points: { size: 7 }, sync: group ? { key: group } : undefined },
    scales: {
      x: {
        time: true,
        range: (_, low, high) => [axisLength() && high !== null ? high - axisLength() : low, high],
      },
      y: { range: (_, low, high) => rangeOf(high, top) },
    },
    axes: [
      {
        ...axis,
        grid: { show: false },
        size: 26,
        space: 70,
        values: (_, ticks) => ticks.map((tick) => clockOf(tick, ticks)),
      },
      { ...axis, size: 58, space: 34, gap: 6, values: (_, ticks) => ticks.map((tick) => format(tick)) },
    ],
    series: [{}, ...series.map((one) => seriesOptions(one, area))],
    hooks: { setCursor: [(plot) => readOut(plot.cursor.idx)] },
  };
}

function seriesOptions(one, area) {
  const stroke = color(one.color);
  const soft = area ? stroke.replace("rgb(", "rgba(").replace(")", ", 0.13)") : undefined;
  const points = {
    show: false,
    size: 5,
    fill: stroke,
    filter: (plot, index) => lonePoints(plot.data[index]),
  };
  return { label: one.label, stroke, width: 1.6, fill: soft, points, spanGaps: false };
}

/** From nothing to a little above the highest value; a flat line at nothing lies on the ground. */
function rangeOf(high, top) {
  if (top !== null) return [0, top];
  return [0, high ? high * 1.12 : 1];
}

function clockOf(tick, ticks) {
  const date = new Date(tick * 1000);
  const two = (n) => String(n).padStart(2, "0");
  const seconds = ticks.length > 1 && ticks[1] - ticks[0] < 60 ? `:${two(date.getSeconds())}` : "";
  return `${two(date.getHours())}:${two(date.getMinutes())}${seconds}`;
}

function lastKnown(data) {
  for (let index = data[0].length - 1; index >= 0; index -= 1) {
    if (data.slice(1).some((column) => column[index] !== null && column[index] !== undefined)) return index;
  }
  return null;
}

function walk(event, plot, data, said) {
  const step = { ArrowLeft: -1, ArrowRight: 1, Home: -1e9, End: 1e9 }[event.key];
  if (!step || !plot || !data[0].length) return;
  event.preventDefault();
  const last = data[0].length - 1;
  const index = Math.min(last, Math.max(0, (plot.cursor.idx ?? last) + step));
  plot.setCursor({ left: plot.valToPos(data[0][index], "x"), top: 10 });
  said();
}

const spoken = (when, series, values) =>
  `${when.textContent}: ${series.map((one, index) => `${one.label} ${values[index].textContent}`).join(", ")}`;

function summary(series, data, format) {
  const at = lastKnown(data);
  if (at === null) return "Nothing known yet.";
  return `${series
    .map((one, index) => {
      const known = data[index + 1].filter((value) => value !== null && value !== undefined);
      return known.length
        ? `${one.label}: last ${format(known.at(-1))}, highest ${format(Math.max(...known))}`
        : `${one.label}: unknown`;
    })
    .join("; ")}.`;
}
