// The settings in force of every service, each with where its value comes from.

import { get } from "../lib/api.js";
import { append, fill, h, setText } from "../lib/dom.js";
import { plural } from "../lib/format.js";
import { badge, empty, failure, loading } from "../components/bits.js";
import { card, drawCard } from "../components/card.js";
import { filterBar } from "../components/filter_bar.js";
import { plainTable } from "../components/table.js";

const TONES = { default: "", environment: "accent", file: "good" };

/** Draws the page. */
export async function open(root, { query, signal }) {
  const box = h("div.stack", null, loading());
  const note = h("span.count", { role: "status" });
  let services = [];
  const filters = filterBar(
    query,
    [
      {
        key: "service",
        label: "Service",
        options: () => [...new Set(services.map((each) => each.service))].sort(),
      },
      {
        key: "source",
        label: "Source",
        options: () =>
          [...new Set(services.flatMap((each) => each.settings.map((setting) => setting.source)))].sort(),
      },
    ],
    "Filter by name, value or description",
    draw,
  );
  append(root, [h("div.filters", null, filters.element, note), box]);

  async function read() {
    try {
      drawCard(box, await get("configuration", {}, signal), (told) => {
        services = told;
        draw();
      });
    } catch (error) {
      if (!signal.aborted) fill(box, failure(error, read));
    }
  }

  function draw() {
    filters.refresh();
    const { service, source, search } = filters.values();
    const shown = services
      .filter((each) => !service || each.service === service)
      .map((each) => ({
        ...each,
        settings: each.settings.filter((setting) => fits(setting, source, search)),
      }));
    setText(
      note,
      plural(
        shown.reduce((sum, each) => sum + each.settings.length, 0),
        "setting",
      ),
    );
    const cards = shown.filter((each) => each.settings.length || each.error).map(serviceCard);
    fill(box, cards.length ? cards : empty("No setting fits", "Take a filter back."));
  }

  await read();
}

function fits(setting, source, search) {
  const wanted = search.toLowerCase();
  return (
    (!source || setting.source === source) &&
    (!wanted ||
      [setting.name, setting.variable, String(setting.value), setting.description].some((text) =>
        text?.toLowerCase().includes(wanted),
      ))
  );
}

function serviceCard({ service, instance, error, settings }) {
  const title = `${service[0].toUpperCase()}${service.slice(1)}`;
  if (error)
    return card(title, { aside: instance }, failure(error.message ? error : { message: String(error) }));
  return card(
    title,
    { bare: true, aside: instance || plural(settings.length, "setting") },
    plainTable(
      `Settings of ${service}`,
      ["Name", "Value", "Source", "What it does"],
      settings.map((setting) => [
        h("span.mono", { title: setting.variable }, setting.name),
        h("span.mono.value", null, valueOf(setting)),
        badge(setting.source, TONES[setting.source] ?? ""),
        h("span.describes", null, setting.description),
      ]),
    ),
  );
}

function valueOf({ value }) {
  if (value === null || value === "") return "empty";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}
