// What administrators changed, newest first.

import { get } from "../lib/api.js";
import { append, fill, h } from "../lib/dom.js";
import { count } from "../lib/format.js";
import { empty, failure, time } from "../components/bits.js";
import { card } from "../components/card.js";
import { plainTable } from "../components/table.js";

/** Draws the page. */
export async function open(root, { signal }) {
  const box = h("div");
  const more = h("button.button", { type: "button", hidden: true, onclick: () => read() }, "Show older ones");
  append(root, [card("", { bare: true }, box), more]);
  const events = [];
  let token = "";

  async function read() {
    more.disabled = true;
    try {
      const answer = await get("audit", { page_size: 100, page_token: token }, signal);
      events.push(...answer.events);
      token = answer.next_page_token;
      draw(answer.audited);
    } catch (error) {
      if (!signal.aborted) fill(box, failure(error, read));
    }
    more.disabled = false;
  }

  function draw(audited) {
    more.hidden = !token;
    if (!audited)
      return fill(
        box,
        empty(
          "No trail is kept",
          "Changes are kept with the directory in a database; from a file they are in the gateway's log alone.",
          "export WEIR_GATEWAY__DATABASE_URL=sqlite:////var/lib/weir/directory.db",
        ),
      );
    if (!events.length)
      return fill(
        box,
        empty(
          "Nothing was changed yet",
          "Changes by the console, the API and the CLI show here.",
          "weir admin audit",
        ),
      );
    return fill(
      box,
      plainTable(
        "Audit trail",
        ["When", "Who", "What", "Object", "#Directory version"],
        events.map((event) => [
          time(event.time),
          event.actor,
          event.action,
          h("span.mono", null, event.object),
          count(event.directory_version),
        ]),
      ),
    );
  }

  await read();
}
