"""When each key was used last, to the minute."""

from collections.abc import Mapping

MINUTE_MS = 60_000


class KeyUses:
    """Collects uses until somebody keeps them. Holds one number a key.

    Coarse: a key that is used all the time costs one write a minute, and the time says whether a
    key is still in use, not what somebody did when.
    """

    def __init__(self) -> None:
        self._last: dict[str, int] = {}

    def note(self, key_id: str, now_ms: int) -> None:
        """A key was used, Unix milliseconds."""
        self._last[key_id] = now_ms - now_ms % MINUTE_MS

    def take(self) -> Mapping[str, int]:
        """Uses since the last time, Unix milliseconds by public id."""
        taken, self._last = self._last, {}
        return taken
