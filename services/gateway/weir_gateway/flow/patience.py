"""The one thing that a request waits for, and what happens when it does not come."""

from collections.abc import Callable

from weir_gateway.flow.ports import CallLater, Timer


class Patience:
    """At most one timer.

    Args:
        call_later: makes timers.
    """

    def __init__(self, call_later: CallLater) -> None:
        self._call_later = call_later
        self._timer: Timer | None = None

    def until(self, seconds: float, then: Callable[[], None]) -> None:
        """Does `then` in `seconds`, in place of what was to be done before."""
        self.end()
        self._timer = self._call_later(seconds, then)

    def end(self) -> None:
        """It came, or is waited for no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
