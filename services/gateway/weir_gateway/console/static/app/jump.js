// Jump: type a page, a tenant or a request's id, press Enter.

import { get } from "../lib/api.js";
import { fill, h } from "../lib/dom.js";
import { openDialog } from "../components/dialog.js";
import { GROUPS } from "./routes.js";
import { go } from "./router.js";

const MOST = 8;

/** Opens it. */
export async function openJump(session) {
  if (document.querySelector("dialog[open]")) return;
  const pages = GROUPS.flatMap(([, each]) => each)
    .filter((page) => session.pages.includes(page.id))
    .map((page) => ({ text: page.label, kind: "page", path: `/console/${page.id}` }));
  let places = pages;
  let shown = [];
  let chosen = 0;
  const list = h("ul.jump", { role: "listbox", id: "jump-list", "aria-label": "Places" });
  const input = h("input.field", {
    type: "search",
    autofocus: true,
    placeholder: "Page, tenant or request id",
    role: "combobox",
    "aria-label": "Where to",
    "aria-expanded": "true",
    "aria-controls": "jump-list",
    autocomplete: "off",
    oninput: draw,
    onkeydown: key,
  });
  const dialog = openDialog("Jump to", [input, list]);
  dialog.classList.add("jump-dialog");

  function draw() {
    shown = placesFor(input.value.trim(), places);
    chosen = 0;
    mark();
  }

  function mark() {
    fill(
      list,
      shown.map((place, index) =>
        h(
          "li",
          {
            id: `jump-${index}`,
            role: "option",
            "aria-selected": String(index === chosen),
            onclick: () => leave(place),
          },
          place.text,
          h("span.muted", null, place.kind),
        ),
      ),
    );
    if (shown.length) input.setAttribute("aria-activedescendant", `jump-${chosen}`);
    else input.removeAttribute("aria-activedescendant");
  }

  function key(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && shown.length) {
      event.preventDefault();
      chosen = (chosen + step + shown.length) % shown.length;
      mark();
    } else if (event.key === "Enter" && shown[chosen]) {
      event.preventDefault();
      leave(shown[chosen]);
    }
  }

  function leave(place) {
    dialog.close();
    go(place.path);
  }

  draw();
  const found = await get("tenants", { page_size: 200 }).catch(() => ({ tenants: [] }));
  places = [
    ...pages,
    ...found.tenants.map((tenant) => ({
      text: tenant.id,
      kind: "tenant",
      path: `/console/tenants/${encodeURIComponent(tenant.id)}`,
    })),
  ];
  draw();
}

function placesFor(typed, places) {
  const wanted = typed.toLowerCase();
  const found = places.filter((place) => place.text.toLowerCase().includes(wanted)).slice(0, MOST);
  if (typed.length < 8) return found;
  return [...found, { text: typed, kind: "request", path: `/console/requests/${encodeURIComponent(typed)}` }];
}
