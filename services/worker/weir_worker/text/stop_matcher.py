"""Finds stop strings in streamed text and lets nothing of a match out."""

from collections.abc import Sequence


class StopMatcher:
    """Text of one sequence on its way out.

    Held back is the longest suffix that is a proper prefix of a stop string, no more. The
    match that ends first wins; of those that end together, the longest.
    """

    __slots__ = ("_held", "_stops")

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(stops)
        self._held = ""

    def push(self, text: str) -> tuple[str, bool]:
        """Return the text that may be emitted, and whether a stop string was found."""
        window = self._held + text
        start = self._match(window)
        if start is not None:
            self._held = ""
            return window[:start], True
        cut = len(window) - self._held_back(window)
        self._held = window[cut:]
        return window[:cut], False

    def flush(self) -> str:
        """Return the text held back, when generation ended for another reason."""
        held, self._held = self._held, ""
        return held

    def _match(self, window: str) -> int | None:
        """Return where the winning match starts."""
        best: tuple[int, int] | None = None
        for stop in self._stops:
            start = window.find(stop)
            if start >= 0 and (best is None or (start + len(stop), start) < best):
                best = (start + len(stop), start)
        return None if best is None else best[1]

    def _held_back(self, window: str) -> int:
        longest = 0
        for stop in self._stops:
            for length in range(min(len(stop) - 1, len(window)), longest, -1):
                if window.endswith(stop[:length]):
                    longest = length
                    break
        return longest
