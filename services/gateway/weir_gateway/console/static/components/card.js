// A framed part of a page, and how a part that comes from another process is drawn.

import { fill, h } from "../lib/dom.js";
import { failure } from "./bits.js";

/**
 * A card.
 *
 * @param {string} title
 * @param {object} [options] `span`: columns of 12; `aside`: right of the title; `bare`: the body
 *   reaches the edges, as tables do
 * @param {...Node} body
 */
export function card(title, { span = 12, aside = null, bare = false } = {}, ...body) {
  const head = title && h("header", null, h("h2", null, title), aside && h("span.aside", null, aside));
  return h(
    `section.card.span-${span}`,
    { "aria-label": title || null },
    head,
    bare ? body : h("div.pad", null, body),
  );
}

/** Draws the `data` of an answer's part into a box, or why it has none. */
export function drawCard(box, part, draw) {
  if (part?.error) fill(box, failure(part.error));
  else if (part?.data !== null && part?.data !== undefined) draw(part.data, box);
}
