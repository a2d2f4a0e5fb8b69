"""Length statistics of Vidur: `num_prefill_tokens,num_decode_tokens,...`.

Source: https://github.com/microsoft/vidur (MIT), such as its arXiv summarisation set.
"""

from collections.abc import Iterator
from pathlib import Path

from weir_sim.traces.lines import csv_rows
from weir_sim.traces.trace_format import CsvFormat, ReadSpan
from weir_sim.traces.trace_row import TraceRow


class Vidur(CsvFormat):
    """Lengths alone."""

    def __init__(self) -> None:
        super().__init__("vidur", ("num_prefill_tokens", "num_decode_tokens"), timed=False)

    def read(self, path: Path, span: ReadSpan) -> Iterator[TraceRow]:
        """Rows in order. Raises TraceError."""
        for row in csv_rows(path, self.columns):
            yield TraceRow(
                prompt_tokens=row.whole("num_prefill_tokens"),
                output_tokens=row.whole("num_decode_tokens"),
            )
