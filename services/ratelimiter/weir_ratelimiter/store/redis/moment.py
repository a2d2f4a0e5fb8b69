"""The server's time, as far as it must be known before a call: which windows lie around it."""

from collections.abc import Callable

import msgspec

from weir_core.bucket import MAX_UNITS


class Moment(msgspec.Struct, frozen=True, gc=False):
    """When a call is made.

    Attributes:
        now_ms: the server's time, about; Unix milliseconds.
        override_ms: what the script shall take for the time; 0: its own.
        until_ms: when nobody waits for the answer any more, on the server's clock.
    """

    now_ms: int
    override_ms: int
    until_ms: int = MAX_UNITS


class ServerTime:
    """Guesses the server's clock from its last answer.

    Args:
        local_ms: a clock that only runs, Unix milliseconds, about.
        forced_ms: in tests, what the scripts take for the time; else the server's own is used.
    """

    def __init__(
        self, local_ms: Callable[[], int], forced_ms: Callable[[], int] | None = None
    ) -> None:
        self._local_ms = local_ms
        self._forced_ms = forced_ms
        self._ahead_ms = 0

    def moment(self, patience_ms: int = MAX_UNITS) -> Moment:
        """Now, for a caller that waits for `patience_ms` milliseconds."""
        if self._forced_ms is not None:
            forced = self._forced_ms()
            return Moment(forced, forced, forced + patience_ms)
        now_ms = self._local_ms() + self._ahead_ms
        return Moment(now_ms, 0, now_ms + patience_ms)

    def heard(self, server_ms: int) -> None:
        """Take note of the time in an answer."""
        self._ahead_ms = server_ms - self._local_ms()
