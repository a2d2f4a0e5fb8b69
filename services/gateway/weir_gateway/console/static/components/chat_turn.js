// One turn of a chat: who, the text as it comes, and under an answer its pace.

import { h } from "../lib/dom.js";
import { count, duration } from "../lib/format.js";
import { failure } from "./bits.js";

/** A turn. `write`, then one of `finish`, `stopped` and `fail`. */
export function chatTurn(role, said) {
  const text = h("div.text", null, said);
  const under = h("div.pace");
  const element = h(
    `div.turn.${role}`,
    null,
    h("div.who", null, role === "user" ? "You" : "Model"),
    text,
    under,
  );
  let finish = "";
  if (role === "assistant") element.classList.add("writing");

  function end(...children) {
    element.classList.remove("writing");
    under.replaceChildren(...children);
  }

  return {
    element,
    write(piece) {
      if (piece.text) text.append(piece.text);
      if (piece.finish) finish = piece.finish;
    },
    finish(pace) {
      end(...paceWords(pace, finish));
    },
    stopped() {
      end("Stopped. What ran until then is charged.");
    },
    fail(error) {
      end(failure(error), ...(error.requestId ? [requestLink(error.requestId)] : []));
    },
  };
}

function paceWords({ ttft, itl, itl95, took, usage, requestId }, finish) {
  const parts = [
    ["TTFT", duration(ttft)],
    ["ITL p50", duration(itl)],
    ["p95", duration(itl95)],
    ["took", duration(took)],
    usage && ["tokens", `${count(usage.prompt_tokens)} + ${count(usage.completion_tokens)}`],
    usage &&
      usage.completion_tokens > 1 &&
      took > ttft && ["speed", `${((usage.completion_tokens - 1) / (took - ttft)).toFixed(1)}/s`],
    finish && finish !== "stop" && ["ended by", finish],
  ].filter(Boolean);
  const figures = parts.map(([name, value]) => h("span", null, `${name} `, h("b", null, value)));
  return requestId ? [...figures, requestLink(requestId)] : figures;
}

const requestLink = (id) => h("a", { href: `/console/requests/${encodeURIComponent(id)}` }, "Inspect");
