// The frame: navigation, head with the live state, theme and help; and the stream of the overview,
// which the overview page and the navigation draw from.

import { post } from "../lib/api.js";
import { append, fill, h, setText } from "../lib/dom.js";
import { icon } from "../lib/icons.js";
import { follow } from "../lib/live.js";
import { setShortcuts } from "../lib/shortcuts.js";
import { theme, toggleTheme } from "../lib/theme.js";
import { publish } from "./feed.js";
import { openHelp } from "./help.js";
import { openJump } from "./jump.js";
import { GROUPS, labelOf } from "./routes.js";
import { go, startRouter } from "./router.js";

const STATES = { live: "Live", lost: "Connection lost, trying again", paused: "Paused" };

/** Draws the frame and starts its pages. `leave(message)` goes to the login. */
export function startShell(root, session, leave) {
  const ended = new AbortController();
  const state = h("span.live-state.optional", { role: "status" }, "Connecting");
  const crumbs = h("div.crumbs");
  const content = h("div.content");
  const main = h("main", { id: "main", tabIndex: -1 }, content);
  const nav = navigation(session);
  const themeButton = h("button.icon-button", { type: "button", onclick: switchTheme });
  const tools = h(
    "div.tools",
    null,
    state,
    tool("search", "Jump to a page, tenant or request (Ctrl K)", openJumpHere),
    themeButton,
    tool("help", "Keyboard shortcuts (?)", help),
    tool("leave", `Log out ${session.name}`, logOut),
  );
  const menu = h(
    "button.icon-button.menu",
    {
      type: "button",
      "aria-label": "Menu",
      "aria-expanded": "false",
      "aria-controls": "side",
      onclick: () => openMenu(true),
    },
    icon("menu"),
  );
  const frame = h(
    "div.shell",
    null,
    nav,
    h("div.page", null, h("header.head", null, menu, crumbs, tools), main),
    h("button.scrim", { type: "button", "aria-label": "Close the menu", onclick: () => openMenu(false) }),
  );
  fill(root, h("a.skip", { href: "#main", onclick: skip }, "Skip to the content"), frame);

  function switchTheme() {
    if (this instanceof HTMLElement) toggleTheme();
    const other = theme() === "dark" ? "light" : "dark";
    fill(themeButton, icon(other === "dark" ? "moon" : "sun"));
    themeButton.setAttribute("aria-label", `Go to the ${other} theme`);
    themeButton.title = `Go to the ${other} theme`;
  }

  function skip(event) {
    event.preventDefault();
    main.focus();
  }

  function openMenu(opened) {
    frame.classList.toggle("menu-open", opened);
    menu.setAttribute("aria-expanded", String(opened));
    if (opened) nav.querySelector("a").focus();
    else if (nav.contains(document.activeElement)) menu.focus();
  }

  function help() {
    openHelp(session);
  }

  function openJumpHere() {
    openJump(session);
  }

  async function logOut() {
    await post("logout").catch(() => {});
    ended.abort();
    leave("You are logged out.");
  }

  function onPage(id, names) {
    openMenu(false);
    drawCrumbs(crumbs, id, names);
    for (const link of nav.querySelectorAll("a[data-page]")) {
      if (link.dataset.page === id) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
  }

  switchTheme();
  follow(
    publish,
    (name) => {
      state.dataset.state = name;
      setText(state, STATES[name]);
    },
    (message) => {
      ended.abort();
      leave(message);
    },
    ended.signal,
  );
  document.addEventListener("keydown", (event) => keys(event, openMenu, openJumpHere), {
    signal: ended.signal,
  });
  setShortcuts(shortcutsOf(session, { help, theme: () => themeButton.click() }));
  startRouter({ content, session, onPage });
}

function navigation(session) {
  const nav = h(
    "nav.side",
    { id: "side", "aria-label": "Pages" },
    h("a.brand", { href: "/console/" }, icon("logo"), "Tokenweir"),
  );
  for (const [title, pages] of GROUPS) {
    const allowed = pages.filter((page) => session.pages.includes(page.id));
    if (allowed.length)
      append(nav, [
        h("h2", { id: `group-${title}` }, title),
        h("ul", { "aria-labelledby": `group-${title}` }, allowed.map(link)),
      ]);
  }
  const who = session.tenant ? `${session.tenant}, key ${session.key ?? ""}` : session.name;
  append(nav, [h("div.foot", null, h("div", null, who), h("div", null, `Tokenweir ${session.version}`))]);
  return nav;
}

const link = (page) =>
  h(
    "li",
    null,
    h(
      "a",
      { href: `/console/${page.id === "overview" ? "" : page.id}`, data: { page: page.id } },
      icon(page.id),
      page.label,
      h("kbd", { "aria-hidden": "true" }, `g ${page.key}`),
    ),
  );

const tool = (name, label, onclick) =>
  h("button.icon-button", { type: "button", title: label, "aria-label": label, onclick }, icon(name));

function drawCrumbs(box, id, names) {
  const label = id ? labelOf(id) : "Not found";
  document.title = `${[...names].reverse().concat(label).join(" · ")} · Tokenweir`;
  if (!names.length) return fill(box, h("h1", null, label));
  return fill(
    box,
    h("a", { href: `/console/${id}` }, label),
    h("span.muted", { "aria-hidden": "true" }, "/"),
    h("h1", null, names.join(" / ")),
  );
}

function keys(event, openMenu, openJumpHere) {
  if (event.key === "Escape") openMenu(false);
  if (event.key.toLowerCase() === "k" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    openJumpHere();
  }
}

function shortcutsOf(session, { help, theme: switchTheme }) {
  const pages = GROUPS.flatMap(([, each]) => each).filter((page) => session.pages.includes(page.id));
  const actions = Object.fromEntries(pages.map((page) => [`g ${page.key}`, () => go(`/console/${page.id}`)]));
  return { ...actions, "?": help, t: switchTheme, "/": focusFilter };
}

function focusFilter() {
  document.querySelector("main input[type='search']")?.focus();
}
