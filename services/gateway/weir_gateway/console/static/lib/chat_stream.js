// An answer of /v1/chat/completions as it comes, with what people want to know of its pace.

import { errorOf } from "./api.js";

/**
 * Asks and reads the stream.
 *
 * @param {string} url
 * @param {object} headers
 * @param {object} body of the request
 * @param {(piece: object) => void} onPiece `{text}` for new text, `{finish}` for the reason of the end
 * @param {AbortSignal} signal stops it, and the work for it
 * @returns {Promise<object>} `{ttft, gaps, usage, requestId}`, times in seconds
 * @throws {ApiError} the refusal, or what ended the stream
 */
export async function chat(url, headers, body, onPiece, signal) {
  const pace = new Pace();
  const response = await fetch(url, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: JSON.stringify(body),
    signal,
  });
  pace.requestId = response.headers.get("x-request-id") ?? "";
  if (!response.ok) throw Object.assign(await errorOf(response), { requestId: pace.requestId });
  for await (const chunk of chunksOf(response)) {
    if (chunk.error)
      throw Object.assign(new Error(chunk.error.message), {
        status: response.status,
        reason: chunk.error.reason ?? chunk.error.code,
        requestId: pace.requestId,
      });
    if (chunk.usage) pace.usage = chunk.usage;
    const choice = chunk.choices?.[0];
    if (choice?.delta?.content) {
      pace.mark();
      onPiece({ text: choice.delta.content });
    }
    if (choice?.finish_reason) onPiece({ finish: choice.finish_reason });
  }
  return pace.summary();
}

/** When pieces came. */
class Pace {
  constructor() {
    this.begin = performance.now();
    this.times = [];
    this.usage = null;
    this.requestId = "";
  }

  mark() {
    this.times.push(performance.now());
  }

  summary() {
    const gaps = this.times
      .slice(1)
      .map((time, index) => (time - this.times[index]) / 1000)
      .sort((a, b) => a - b);
    return {
      ttft: this.times.length ? (this.times[0] - this.begin) / 1000 : null,
      took: (performance.now() - this.begin) / 1000,
      itl: gaps.length ? gaps[Math.floor(gaps.length / 2)] : null,
      itl95: gaps.length ? gaps[Math.floor(gaps.length * 0.95)] : null,
      usage: this.usage,
      requestId: this.requestId,
    };
  }
}

/** The JSON of each `data:` line, until `[DONE]`. */
async function* chunksOf(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) {
      const data = line.startsWith("data:") ? line.slice(5).trim() : "";
      if (data === "[DONE]") return;
      if (data) yield JSON.parse(data);
    }
  }
}
