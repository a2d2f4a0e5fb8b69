"""The time budget of the request at hand, carried from hop to hop.

A context variable holds the moment at which the current request is worthless. Servers set it
from the caller's gRPC deadline, the HTTP edge with `budget`, and every channel of
`open_channel` shortens its calls to what is left.

Hazard: a task started while a request runs inherits its budget. Work that must be done even
when the request is over (settle, refund, abort) runs under `own_budget`.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from weir_core.errors import Reason, WeirError

_ends_at: ContextVar[float | None] = ContextVar("weir_deadline", default=None)


def remaining_s() -> float | None:
    """Seconds left of the current request's budget, 0 when over; None without a budget."""
    ends_at = _ends_at.get()
    return None if ends_at is None else max(0.0, ends_at - time.monotonic())


def set_budget(seconds: float | None) -> None:
    """Sets the budget for the rest of the current task; for the start of an RPC handler."""
    _ends_at.set(None if seconds is None else time.monotonic() + seconds)


@contextmanager
def budget(seconds: float) -> Iterator[None]:
    """Runs the block with at most `seconds`, and never more than what is already left."""
    left = remaining_s()
    with own_budget(seconds if left is None else min(seconds, left)):
        yield


@contextmanager
def own_budget(seconds: float | None) -> Iterator[None]:
    """Runs the block with `seconds` of its own, whatever is left of the request; None: no bound."""
    before = _ends_at.get()
    set_budget(seconds)
    try:
        yield
    finally:
        _ends_at.set(before)


def call_timeout_s(wanted: float | None, *, margin_s: float = 0.005) -> float | None:
    """The timeout of an outgoing call: `wanted`, or what is left less `margin_s` if shorter.

    The margin lets this hop still answer when the next one is late.
    Raises WeirError(DEADLINE_EXCEEDED) when nothing is left.
    """
    left = remaining_s()
    if left is None:
        return wanted
    if left <= margin_s:
        raise WeirError(Reason.DEADLINE_EXCEEDED, "the deadline passed before the call was made")
    return left - margin_s if wanted is None else min(wanted, left - margin_s)
