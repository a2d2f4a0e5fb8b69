"""Azure LLM inference trace 2023: `TIMESTAMP,ContextTokens,GeneratedTokens`.

Source: https://github.com/Azure/AzurePublicDataset (CC-BY 4.0).
"""

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from weir_sim.traces.lines import CsvRow, csv_rows, since_first
from weir_sim.traces.trace_error import bad_field
from weir_sim.traces.trace_format import CsvFormat, ReadSpan, within
from weir_sim.traces.trace_row import TraceRow


class Azure(CsvFormat):
    """Arrivals and lengths; no clients."""

    def __init__(self) -> None:
        super().__init__("azure", ("TIMESTAMP", "ContextTokens", "GeneratedTokens"))

    def read(self, path: Path, span: ReadSpan) -> Iterator[TraceRow]:
        """Rows in order. Raises TraceError."""
        begin: datetime | None = None
        for row in csv_rows(path, self.columns):
            moment = _moment(row)
            begin = begin or moment
            passed_s = (moment - begin).total_seconds()
            arrival_s = since_first(row, "TIMESTAMP", passed_s)
            if within(arrival_s, span):
                yield TraceRow(
                    prompt_tokens=row.whole("ContextTokens"),
                    output_tokens=row.whole("GeneratedTokens"),
                    arrival_s=arrival_s,
                )


def _moment(row: CsvRow) -> datetime:
    text = row.text("TIMESTAMP")
    whole, _, fraction = text.partition(".")
    try:
        # Seven digits of a second; Python takes six.
        moment = datetime.fromisoformat(f"{whole}.{(fraction + '000000')[:6]}")
        # Some rows with a zone and some without cannot be compared.
        return moment.replace(tzinfo=None)
    except ValueError:
        raise bad_field(
            row.path, row.line, "TIMESTAMP", text, "a moment such as 2023-11-16 18:17:03.979"
        ) from None
