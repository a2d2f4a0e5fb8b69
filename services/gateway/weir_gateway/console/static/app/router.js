// From the address to a page: one page at a time, each with a signal that ends its work.

import { fill } from "../lib/dom.js";
import { empty, failure, loading } from "../components/bits.js";
import { match } from "./routes.js";

let current = null;
let context = null;

/**
 * Begins to follow the address.
 *
 * @param {object} given
 *   content: the element that pages are drawn in
 *   session: of the one who looks; null while nobody is logged in
 *   onPage(id, crumbs): tells the frame where it is
 */
export function startRouter(given) {
  context = given;
  open();
}

/** Goes to a path of the console. */
export function go(path, { replace = false } = {}) {
  if (replace) history.replaceState(null, "", path);
  else history.pushState(null, "", path);
  open();
}

/** Changes the query of this page's address; the page itself stays. */
export function setQuery(changes) {
  const query = new URLSearchParams(location.search);
  for (const [key, value] of Object.entries(changes)) {
    if (value) query.set(key, value);
    else query.delete(key);
  }
  const text = query.toString();
  history.replaceState(null, "", location.pathname + (text ? `?${text}` : ""));
}

async function open() {
  current?.abort();
  const control = new AbortController();
  current = control;
  const route = match(location.pathname);
  const allowed = route && (route.id === "login" || context.session?.pages.includes(route.id));
  if (!allowed) return nowhere(route);
  context.onPage(route.id, []);
  fill(context.content, loading());
  try {
    const module = await route.load();
    if (control.signal.aborted) return;
    window.scrollTo(0, 0);
    fill(context.content);
    module.open(context.content, pageContext(route, control.signal));
  } catch (error) {
    if (control.signal.aborted) return;
    console.error(error);
    fill(context.content, failure(error, open));
  }
}

function pageContext(route, signal) {
  return {
    params: route.params,
    query: new URLSearchParams(location.search),
    session: context.session,
    signal,
    setCrumbs: (...crumbs) => context.onPage(route.id, crumbs),
  };
}

function nowhere(route) {
  context.onPage("", []);
  const role = context.session
    ? `You are logged in as ${context.session.name} (${context.session.role}).`
    : "";
  if (route) fill(context.content, empty("Not for this role", `This page is the administrator's. ${role}`));
  else
    fill(
      context.content,
      empty(
        "No such page",
        "The address leads nowhere. Press g then o for the overview, or ? for all pages.",
      ),
    );
}

window.addEventListener("popstate", () => context && open());

document.addEventListener("weir:go", (event) => go(event.detail));

document.addEventListener("click", (event) => {
  const link = event.target.closest?.("a[href^='/console/']");
  if (
    !link ||
    event.button ||
    event.ctrlKey ||
    event.metaKey ||
    event.shiftKey ||
    link.target ||
    link.dataset.leave
  )
    return;
  event.preventDefault();
  go(link.getAttribute("href"));
});
