"""Output lengths beside predicted classes: `actual_output_tokens,predicted_class,model`.

Source: Qiu et al., "Efficient interactive LLM serving with proxy model-based sequence length
prediction" (2024), https://github.com/James-QiuHaoran/LLM-serving-with-proxy-models.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import mean

from weir_sim.traces.lines import csv_rows
from weir_sim.traces.trace_format import CsvFormat, ReadSpan
from weir_sim.traces.trace_row import TraceRow

PROMPT_TOKENS = 1
"""The file has no prompts: it is about outputs alone."""
_MOST_CLASSES = 1_000


class Ssjf(CsvFormat):
    """Outputs and what a BERT classifier made of their prompts; no times, no prompts."""

    def __init__(self) -> None:
        super().__init__("ssjf", ("actual_output_tokens", "predicted_class"), timed=False)

    def read(self, path: Path, span: ReadSpan) -> Iterator[TraceRow]:
        """Rows in order; a class predicts the mean output of its rows. Raises TraceError."""
        means = self._class_means(path)
        for output, predicted in self._pairs(path):
            yield TraceRow(
                prompt_tokens=PROMPT_TOKENS,
                output_tokens=output,
                predicted_output=means[predicted],
            )

    def _class_means(self, path: Path) -> Mapping[int, int]:
        outputs: dict[int, list[int]] = defaultdict(list)
        for output, predicted in self._pairs(path):
            outputs[predicted].append(output)
        return {name: max(1, round(mean(of_class))) for name, of_class in outputs.items()}

    def _pairs(self, path: Path) -> Iterator[tuple[int, int]]:
        for row in csv_rows(path, self.columns):
            predicted = row.whole("predicted_class", least=0, most=_MOST_CLASSES)
            yield row.whole("actual_output_tokens"), predicted
