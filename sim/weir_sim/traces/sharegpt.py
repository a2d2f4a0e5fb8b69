"""ShareGPT lengths of LLMServingSim: `arrival_ns,input_tokens,output_tokens`.

Source: https://github.com/casys-kaist/LLMServingSim (MIT). Its generator kept only answers of
512 tokens and more.
"""

from collections.abc import Iterator
from pathlib import Path

from weir_sim.traces.lines import MAX_SECONDS, csv_rows, since_first
from weir_sim.traces.trace_format import CsvFormat, ReadSpan, within
from weir_sim.traces.trace_row import TraceRow


class ShareGpt(CsvFormat):
    """Arrivals in nanoseconds and lengths."""

    def __init__(self) -> None:
        super().__init__("sharegpt", ("arrival_ns", "input_tokens", "output_tokens"))

    def read(self, path: Path, span: ReadSpan) -> Iterator[TraceRow]:
        """Rows in order; the first arrival is the begin. Raises TraceError."""
        begin: float | None = None
        for row in csv_rows(path, self.columns):
            moment = row.number("arrival_ns", most=MAX_SECONDS * 1e9) / 1e9
            begin = moment if begin is None else begin
            arrival_s = since_first(row, "arrival_ns", moment - begin)
            if within(arrival_s, span):
                yield TraceRow(
                    prompt_tokens=row.whole("input_tokens"),
                    output_tokens=row.whole("output_tokens"),
                    arrival_s=arrival_s,
                )
