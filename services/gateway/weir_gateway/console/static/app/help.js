// The dialog that tells every key.

import { h } from "../lib/dom.js";
import { openDialog } from "../components/dialog.js";
import { shortcutsOn, switchShortcuts } from "../lib/shortcuts.js";
import { GROUPS } from "./routes.js";

const GENERAL = [
  [["?"], "This help"],
  [["Ctrl", "K"], "Jump to a page, tenant or request"],
  [["/"], "Filter of the page"],
  [["t"], "Other theme"],
  [["↑", "↓"], "Rows of a table; Enter opens one"],
  [["←", "→"], "Walk along a chart or the map of blocks"],
  [["Esc"], "Close a dialog or the menu"],
];

/** Opens it. */
export function openHelp(session) {
  const pages = GROUPS.flatMap(([, each]) => each).filter((page) => session.pages.includes(page.id));
  const toggle = h("input", {
    type: "checkbox",
    checked: shortcutsOn(),
    onchange: () => switchShortcuts(toggle.checked),
  });
  openDialog("Keyboard", [
    h(
      "div.keys",
      null,
      keyList("Everywhere", GENERAL),
      keyList(
        "Go to",
        pages.map((page) => [["g", page.key], page.label]),
      ),
    ),
    h("label.check", null, toggle, "Single keys act (Ctrl K, arrows and Esc always do)"),
  ]);
}

const keyList = (title, rows) =>
  h(
    "div",
    null,
    h("h3", null, title),
    h(
      "dl",
      null,
      rows.map(([keys, text]) => [
        h(
          "dt",
          null,
          keys.map((key) => [h("kbd", null, key), " "]),
        ),
        h("dd", null, text),
      ]),
    ),
  );
