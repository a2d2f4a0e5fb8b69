"""Chatbot Arena as the VTC artifact replays it: `arrival_s,client,prompt_tokens,output_tokens`.

Source: https://github.com/Ying1123/VTC-artifact (Apache-2.0), lengths and times alone.
"""

from collections.abc import Iterator
from pathlib import Path

from weir_sim.traces.lines import csv_rows
from weir_sim.traces.trace_format import CsvFormat, ReadSpan, within
from weir_sim.traces.trace_row import TraceRow


class Arena(CsvFormat):
    """Arrivals, lengths and clients."""

    def __init__(self) -> None:
        columns = ("arrival_s", "client", "prompt_tokens", "output_tokens")
        super().__init__("vtc-arena", columns)

    def read(self, path: Path, span: ReadSpan) -> Iterator[TraceRow]:
        """Rows in order. Raises TraceError."""
        for row in csv_rows(path, self.columns):
            arrival_s = row.number("arrival_s")
            if within(arrival_s, span):
                yield TraceRow(
                    prompt_tokens=row.whole("prompt_tokens"),
                    output_tokens=row.whole("output_tokens"),
                    arrival_s=arrival_s,
                    client=row.text("client"),
                )
