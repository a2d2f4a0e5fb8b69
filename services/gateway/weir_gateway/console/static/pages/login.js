// The login: one field for the admin secret or an API key, and a button of single sign-on.

import { get, post } from "../lib/api.js";
import { append, fill, h } from "../lib/dom.js";
import { icon } from "../lib/icons.js";
import { failure, notice } from "../components/bits.js";

/** Draws the page. */
export async function open(root, { query, signal }) {
  const said = h("div");
  const field = h("input.field", {
    type: "password",
    name: "credential",
    id: "credential",
    autocomplete: "current-password",
    required: true,
    autofocus: true,
    "aria-describedby": "credential-help",
  });
  const button = h("button.button.primary", { type: "submit" }, "Log in");
  const other = h("div");
  const label = h("label.label", { htmlFor: "credential" }, "Admin secret or API key", field);
  const help = h("p.muted", { id: "credential-help" });
  const form = h("form", { onsubmit: submit }, label, help, button);
  append(root, [
    h(
      "div.login-box",
      null,
      h("div.brand", null, icon("logo"), "Tokenweir"),
      h("h1", null, "Log in to the console"),
      said,
      form,
      other,
    ),
  ]);
  if (query.get("error")) fill(said, notice("bad", "Not logged in.", query.get("error")));
  else if (query.get("said")) fill(said, notice("", "", query.get("said")));
  field.focus();

  async function submit(event) {
    event.preventDefault();
    button.disabled = true;
    try {
      await post("login", { credential: field.value }, signal);
      location.replace(wayBack(query.get("page")));
    } catch (error) {
      fill(said, failure(error));
      field.select();
    }
    button.disabled = false;
  }

  try {
    drawMethods(await get("login", {}, signal));
  } catch (error) {
    if (!signal.aborted) fill(said, failure(error));
  }

  function drawMethods({ methods, oidc, tls }) {
    const words = { secret: "Admin secret", key: "API key" };
    const known = methods.filter((method) => words[method]).map((method) => words[method]);
    form.hidden = known.length === 0;
    label.firstChild.textContent = known.join(" or ");
    help.textContent = methods.includes("secret")
      ? "The admin secret (WEIR_ADMIN_SECRET of the gateway; weir up prints it) shows everything; a key shows its own tenant."
      : "A key shows its own tenant. The administrator's login is off: start the gateway with WEIR_ADMIN_SECRET.";
    if (oidc)
      fill(
        other,
        h("div.or", null, "or"),
        h(
          "a.button",
          { href: withPage(oidc.url, query.get("page")), data: { leave: "1" } },
          `Continue with ${oidc.label}`,
        ),
      );
    if (!tls && !["localhost", "127.0.0.1", "[::1]"].includes(location.hostname)) {
      append(root.querySelector(".login-box"), [
        notice(
          "warn",
          "Not encrypted.",
          "Anybody on the way can read what you type here. Set edge_tls, or put a proxy with TLS before the gateway.",
        ),
      ]);
    }
  }
}

const withPage = (url, page) => (page ? `${url}?page=${encodeURIComponent(page)}` : url);

/** Only back into the console: an address from outside is not followed. */
function wayBack(page) {
  return page && /^\/console\/(?!\/)/.test(page) ? page : "/console/";
}
