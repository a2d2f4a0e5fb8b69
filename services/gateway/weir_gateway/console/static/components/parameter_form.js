// Parameters of a generation. Empty ones are left to the server.

import { h } from "../lib/dom.js";

const NUMBERS = [
  ["max_tokens", "Longest answer, tokens", { min: 1, step: 1 }],
  ["temperature", "Temperature, 0 to 2", { min: 0, max: 2, step: 0.1 }],
  ["top_p", "Top p, above 0 to 1", { min: 0.01, max: 1, step: 0.01 }],
  ["top_k", "Top k, 0 is off", { min: 0, step: 1 }],
  ["seed", "Seed", { step: 1 }],
];

/** The form; `values()` gives the fields of a chat request, and `system`. */
export function parameterForm(models) {
  const model = h(
    "select.select",
    null,
    models.map(({ id }) => h("option", { value: id }, id)),
  );
  const system = h("textarea.field", { rows: 2 });
  const stop = h("input.field", { placeholder: "Sequences with commas" });
  const numbers = Object.fromEntries(
    NUMBERS.map(([key, , bounds]) => [
      key,
      h("input.field", { type: "number", inputMode: "decimal", placeholder: "server's default", ...bounds }),
    ]),
  );
  const hint = h("span.muted");

  function chosen() {
    const { max_model_len: longest, default_max_new_tokens: most } = models.find(
      ({ id }) => id === model.value,
    );
    numbers.max_tokens.max = longest ?? "";
    if (most) numbers.max_tokens.value = Math.min(most, 512);
    hint.textContent = longest ? `Context of ${longest.toLocaleString("en-US")} tokens` : "";
  }

  model.addEventListener("change", chosen);
  chosen();
  const element = h(
    "div.parameters",
    null,
    labelled("Model", model),
    hint,
    labelled("System message", system),
    NUMBERS.map(([key, label]) => labelled(label, numbers[key])),
    labelled("Stop", stop),
  );
  return {
    element,
    values() {
      const given = Object.fromEntries(
        Object.entries(numbers)
          .filter(([, field]) => field.value !== "" && field.validity.valid)
          .map(([key, field]) => [key, Number(field.value)]),
      );
      const stops = stop.value
        .split(",")
        .map((each) => each.trim())
        .filter(Boolean);
      return {
        model: model.value,
        system: system.value.trim(),
        ...given,
        ...(stops.length ? { stop: stops } : {}),
      };
    },
  };
}

const labelled = (text, field) => h("label.label", null, text, field);
