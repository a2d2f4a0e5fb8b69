"""Tables of `docs/traces.md`: the spans and attributes of the code's own catalogue."""

from table_cell import cell

from weir_core.telemetry.span_catalogue import ATTRIBUTES, SPANS


def spans_table() -> str:
    """Every span."""
    rows = ["| span | written by | kind | under | what it is |", "|---|---|---|---|---|"]
    rows += [
        f"| `{span.name}` | {span.service} | {span.kind} | {span.parent} | {cell(span.tells)} |"
        for span in SPANS
    ]
    return "\n".join(rows) + "\n"


def attributes_table() -> str:
    """Every attribute."""
    rows = ["| attribute | |", "|---|---|"]
    rows += [f"| `{name}` | {cell(tells)} |" for name, tells in ATTRIBUTES.items()]
    return "\n".join(rows) + "\n"
