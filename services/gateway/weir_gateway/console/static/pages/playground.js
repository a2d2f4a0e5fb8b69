// The playground: a chat with the pace of every answer, its parameters, and the same as code.

import { changeHeaders, get } from "../lib/api.js";
import { append, fill, h } from "../lib/dom.js";
import { chat } from "../lib/chat_stream.js";
import { empty, failure } from "../components/bits.js";
import { card } from "../components/card.js";
import { chatTurn } from "../components/chat_turn.js";
import { parameterForm } from "../components/parameter_form.js";
import { openSnippets } from "../components/snippet_dialog.js";

/** Draws the page. */
export async function open(root, { signal }) {
  let answer;
  try {
    answer = await get("playground/models", {}, signal);
  } catch (error) {
    if (!signal.aborted) append(root, [failure(error)]);
    return;
  }
  if (signal.aborted) return;
  if (!answer.models.length) append(root, [empty("No model", "Nothing is served to you yet.", "weir up")]);
  else new Playground(root, answer, signal);
}

class Playground {
  constructor(root, { models, generate, grpc_port: grpcPort }, signal) {
    this.signal = signal;
    this.ownKey = generate === "key";
    this.grpcAddress = `${location.hostname}:${grpcPort ?? 8001}`;
    this.turns = [];
    this.running = null;
    this.form = parameterForm(models);
    this.key = h("input.field", {
      type: "password",
      autocomplete: "off",
      spellcheck: false,
      placeholder: "API key",
      "aria-label": "API key",
    });
    this.log = h("div.turns", { role: "log", "aria-label": "Conversation", tabIndex: 0 });
    this.input = h("textarea.field", {
      rows: 3,
      placeholder: "Say something. Enter sends, Shift Enter makes a new line.",
      "aria-label": "Message",
      onkeydown: (event) => this.#key(event),
    });
    this.send = h("button.button.primary", { type: "submit" }, "Send");
    this.stop = h(
      "button.button",
      { type: "button", hidden: true, onclick: () => this.running?.abort() },
      "Stop",
    );
    const composer = h(
      "form.composer",
      { onsubmit: (event) => this.#submit(event) },
      this.input,
      h(
        "div.filters",
        null,
        this.send,
        this.stop,
        h("span.grow"),
        h("button.button", { type: "button", onclick: () => this.#clear() }, "New chat"),
        h("button.button", { type: "button", onclick: () => this.#code() }, "View as code"),
      ),
    );
    append(root, [
      h(
        "div.playground",
        null,
        h("section.card.chat", { "aria-label": "Chat" }, this.log, composer),
        card(
          "Parameters",
          { span: 12 },
          this.ownKey && h("label.label", null, "API key, kept in this page alone", this.key),
          this.form.element,
        ),
      ),
    ]);
    this.#clear();
    this.input.focus();
    signal.addEventListener("abort", () => this.running?.abort());
  }

  #key(event) {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) this.#submit(event);
  }

  #clear() {
    this.running?.abort();
    this.turns = [];
    fill(
      this.log,
      empty("Nothing said yet", "What is generated here is limited and charged like any request of the key."),
    );
  }

  #body() {
    const { system, ...parameters } = this.form.values();
    const begin = system ? [{ role: "system", content: system }] : [];
    const draft = this.input.value.trim();
    const pending = draft ? [{ role: "user", content: draft }] : [];
    const messages = [...begin, ...this.turns, ...pending];
    return {
      ...parameters,
      messages: messages.length ? messages : [{ role: "user", content: "Hello" }],
      stream: true,
      stream_options: { include_usage: true },
    };
  }

  #code() {
    openSnippets(this.#body(), location.origin, this.grpcAddress);
  }

  async #submit(event) {
    event.preventDefault();
    if (this.running || !this.input.value.trim()) return;
    if (this.ownKey && !this.key.value.trim()) return this.key.focus();
    const body = this.#body();
    if (!this.turns.length) fill(this.log);
    this.#add(chatTurn("user", this.input.value.trim()));
    this.turns = body.messages.filter((message) => message.role !== "system");
    this.input.value = "";
    await this.#answer(body);
  }

  async #answer(body) {
    const turn = this.#add(chatTurn("assistant", ""));
    this.#running(new AbortController());
    const [url, headers] = this.ownKey
      ? ["/v1/chat/completions", { authorization: `Bearer ${this.key.value.trim()}` }]
      : ["/console/api/playground/chat", changeHeaders()];
    let text = "";
    try {
      const pace = await chat(
        url,
        headers,
        body,
        (piece) => {
          if (piece.text) text += piece.text;
          turn.write(piece);
          this.#scroll();
        },
        this.running.signal,
      );
      turn.finish(pace);
    } catch (error) {
      if (error.name === "AbortError") turn.stopped();
      else turn.fail(error);
    }
    if (text) this.turns.push({ role: "assistant", content: text });
    else this.turns.pop();
    this.#running(null);
    this.#scroll();
    if (!this.signal.aborted) this.input.focus();
  }

  #running(control) {
    this.running = control;
    this.stop.hidden = !control;
    this.send.disabled = Boolean(control);
  }

  #add(turn) {
    append(this.log, [turn.element]);
    this.#scroll();
    return turn;
  }

  #scroll() {
    this.log.scrollTop = this.log.scrollHeight;
  }
}
