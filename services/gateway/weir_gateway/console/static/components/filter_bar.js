// Filters over a list: a text, and choices of what is in the list. They live in the address.

import { fill, h } from "../lib/dom.js";
import { setQuery } from "../app/router.js";

/**
 * A bar of filters.
 *
 * @param {URLSearchParams} query of the address
 * @param {object[]} choices `{key, label, options: () => string[], text?: (option) => string}`
 * @param {string} placeholder of the text field; empty: none
 * @param {() => void} onChange
 */
export function filterBar(query, choices, placeholder, onChange) {
  const chosen = Object.fromEntries(choices.map(({ key }) => [key, query.get(key) ?? ""]));
  let typed = query.get("search") ?? "";
  const search =
    placeholder &&
    h("input.field", {
      type: "search",
      placeholder,
      "aria-label": placeholder,
      value: typed,
      oninput: () => change("search", search.value),
    });
  const selects = choices.map((choice) =>
    h("select.select", {
      "aria-label": choice.label,
      onchange: (event) => change(choice.key, event.target.value),
    }),
  );

  function change(key, value) {
    if (key === "search") typed = value;
    else chosen[key] = value;
    setQuery({ [key]: value });
    onChange();
  }

  function refresh() {
    choices.forEach((choice, index) => drawOptions(selects[index], choice, chosen[choice.key]));
  }

  refresh();
  return {
    element: h("div.filters", null, search, selects),
    refresh,
    values: () => ({ ...chosen, search: typed }),
    /** Whether a row has what was chosen, and one of the texts what was typed. */
    fits: (row, texts) =>
      choices.every(({ key }) => !chosen[key] || row[key] === chosen[key]) &&
      (!typed || texts.some((text) => text?.toLowerCase().includes(typed.toLowerCase()))),
  };
}

function drawOptions(select, choice, value) {
  const options = choice.options();
  if (value && !options.includes(value)) options.push(value);
  const wanted = ["", ...options];
  if (
    wanted.length === select.options.length &&
    wanted.every((option, index) => select.options[index].value === option)
  )
    return;
  fill(
    select,
    wanted.map((option) =>
      h(
        "option",
        { value: option, selected: option === value },
        option ? (choice.text?.(option) ?? option) : `${choice.label}: any`,
      ),
    ),
  );
}
