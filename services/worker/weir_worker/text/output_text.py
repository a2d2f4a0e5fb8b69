"""The text of one sequence: detokenised, cut at stop strings."""

from weir_worker.text.detokenizer import Detokenizer
from weir_worker.text.stop_matcher import StopMatcher


class OutputText:
    """From sampled tokens to text that may be shown."""

    __slots__ = ("_detokenizer", "_stops")

    def __init__(self, detokenizer: Detokenizer, stops: list[str]) -> None:
        self._detokenizer = detokenizer
        self._stops = StopMatcher(stops) if stops else None

    def push(self, token_id: int) -> tuple[str, bool]:
        """Return the new text, and whether a stop string ended it."""
        text = self._detokenizer.push(token_id)
        if self._stops is None or not text:
            return text, False
        return self._stops.push(text)

    def flush(self) -> str:
        """Return what was held back, when no stop string ended the text."""
        tail = self._detokenizer.flush()
        if self._stops is None:
            return tail
        text, stopped = self._stops.push(tail)
        return text if stopped else text + self._stops.flush()
