// Where the console begins: who is looking, then the frame and its pages, or the login.

import { get, useSession } from "../lib/api.js";
import { nameSeries, SERIES } from "../lib/colors.js";
import { fill } from "../lib/dom.js";
import { failure } from "../components/bits.js";
import { go, startRouter } from "./router.js";
import { startShell } from "./shell.js";

const root = document.getElementById("app");

async function start() {
  if (location.pathname.replace(/\/$/, "") === "/console/login") return showLogin();
  try {
    const session = await get("session");
    useSession(session.csrf, (error) => leave(error.message));
    await giveColors(session);
    startShell(root, session, leave);
  } catch (error) {
    if (error.status === 401) leave("");
    else fill(root, failure(error, start));
  }
}

/** The first tenants have their colours before any page is drawn: the same after each reload. */
async function giveColors(session) {
  if (session.tenant) return nameSeries([session.tenant]);
  const answer = await get("tenants", { page_size: SERIES }).catch(() => ({ tenants: [] }));
  return nameSeries(answer.tenants.map((tenant) => tenant.id));
}

function showLogin() {
  const content = fill(
    root,
    Object.assign(document.createElement("main"), { className: "login" }),
  ).firstChild;
  startRouter({
    content,
    session: null,
    onPage: () => {
      document.title = "Log in · Tokenweir";
    },
  });
}

/** To the login, with what to say there and the way back. */
function leave(message) {
  const back = location.pathname + location.search;
  const query = new URLSearchParams();
  if (back !== "/console/" && !back.startsWith("/console/login")) query.set("page", back);
  if (message) query.set("said", message);
  const text = query.toString();
  history.replaceState(null, "", `/console/login${text ? `?${text}` : ""}`);
  showLogin();
}

export { go };

start();
