// A request as curl, Python and gRPC, to copy.

import { h, setText } from "../lib/dom.js";
import { curl, grpc, python } from "../lib/snippets.js";
import { copyButton } from "./copy.js";
import { openDialog } from "./dialog.js";
import { segments } from "./segments.js";

/** Opens it. */
export function openSnippets(body, origin, grpcAddress) {
  const forms = {
    curl: curl(origin, body),
    python: python(origin, body),
    grpc: grpc(grpcAddress, body, origin.startsWith("https")),
  };
  let chosen = "curl";
  const code = h("pre.code", { tabIndex: 0, "aria-label": "Code" }, forms.curl);
  const choice = segments(
    "Form",
    [
      ["curl", "curl"],
      ["python", "Python"],
      ["grpc", "gRPC"],
    ],
    chosen,
    (value) => {
      chosen = value;
      setText(code, forms[value]);
    },
  );
  const dialog = openDialog("The same request as code", [
    h(
      "div.filters",
      null,
      choice,
      h("span.grow"),
      copyButton("Copy", () => forms[chosen], "Code"),
    ),
    code,
    h("p.muted", null, "The key is read from WEIR_API_KEY; it is never written into code."),
  ]);
  dialog.classList.add("wide-dialog");
}
