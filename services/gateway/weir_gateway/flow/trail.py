"""What happened to one request, moment by moment: written by its path, read by whoever explains.

A trail begins when the caller is known and is kept once the request is refused or begins to be
reserved. To note a moment is to append a tuple: nothing is formatted or counted here.
"""

from collections.abc import Callable
from contextvars import ContextVar
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from weir.common.v1.lifecycle_pb2 import LifecycleRecord, TerminalRecord
from weir.common.v1.subject_pb2 import Subject
from weir_core.clock import Clock
from weir_core.errors import LimitExceeded, WeirError
from weir_core.ids import new_request_id
from weir_core.telemetry.context import bind_request
from weir_gateway.caller.caller import Caller

if TYPE_CHECKING:
    from weir_gateway.flow.live_request import LiveRequest

_FIRST_KEPT, _MOST_MOMENTS = 16, 128

_current: ContextVar["Trail | None"] = ContextVar("weir_trail", default=None)


class Moment(IntEnum):
    """Kinds of moments; the values are those of `weir.gateway.v1.EventKind`."""

    ARRIVED = 1
    REFUSED = 2
    DEGRADED = 3
    RESERVED = 4
    ENQUEUED = 5
    QUEUED = 6
    DISPATCHED = 7
    REQUEUED = 8
    PREEMPTED = 9
    FIRST_TOKEN = 10
    EXTENDED = 11
    EXTENSION_REFUSED = 12
    STOPPED = 13
    ENDED = 14
    SETTLED = 15
    LEFT_TO_SWEEP = 16


Noted = tuple[int, Moment, dict[str, Any] | None]
"""Unix microseconds, kind, and the fields of `weir.gateway.v1.TimelineEvent` that it sets."""

Keep = Callable[["Trail"], None]
"""Told of every trail that is worth keeping, once."""


def _forget(trail: "Trail") -> None:
    """Nobody keeps trails."""


class Trail:
    """See the module.

    Args:
        request_id: of the request; what its client is told.
        caller: whose it is.
        clock: wall time.
        keep: whoever keeps trails.

    Attributes:
        live: the request while it lives, once it is reserved for.
        begun_us: when that began.
        reservation_id: of what holds its tokens.
        subject, prompt_tokens: of it; the subject before is the caller alone.
        record, terminal: the one record of its end, and that of its worker.
        error: why it was refused.
        asked: the request was used for this trail; a second one of the call gets its own.
        left_out: moments that were dropped, after the first few.
        gone: it stands for nothing any more: another form of the request ran.
    """

    __slots__ = (
        "_clock",
        "_keep",
        "arrived_us",
        "asked",
        "begun_us",
        "caller",
        "error",
        "gone",
        "left_out",
        "live",
        "moments",
        "prompt_tokens",
        "record",
        "request_id",
        "reservation_id",
        "subject",
        "terminal",
    )

    def __init__(self, request_id: str, caller: Caller, clock: Clock, keep: Keep = _forget) -> None:
        self.request_id = request_id
        self.caller = caller
        self.arrived_us = clock.now_us()
        self.moments: list[Noted] = [(self.arrived_us, Moment.ARRIVED, None)]
        self.begun_us = 0
        self.reservation_id = ""
        self.subject: Subject | None = None
        self.prompt_tokens = 0
        self.left_out = 0
        self.asked = False
        self.gone = False
        self.live: LiveRequest | None = None
        self.record: LifecycleRecord | None = None
        self.terminal: TerminalRecord | None = None
        self.error: WeirError | None = None
        self._clock = clock
        self._keep = keep

    def note(self, kind: Moment, **fields: Any) -> None:
        """Adds a moment; of very many those in the middle are left out."""
        error = fields.get("error")
        if error is not None:
            fields["error"] = _without_frames(error)
        self.moments.append((self._clock.now_us(), kind, fields or None))
        if len(self.moments) > _MOST_MOMENTS:
            del self.moments[_FIRST_KEPT]
            self.left_out += 1

    def begin(self, live: "LiveRequest") -> None:
        """Its tokens are about to be reserved."""
        self.live = live
        self.begun_us = self._clock.now_us()
        self.subject = live.prepared.subject
        self.prompt_tokens = live.prepared.prompt_tokens
        self._keep(self)

    def refuse(self, error: WeirError) -> None:
        """It will not run; nothing happens when it was refused, or runs, already."""
        if self.error is not None or self.record is not None:
            return
        if self.live is not None and self.live.facts.accepted_us:
            return
        self.live, self.error = None, _without_frames(error)
        if self.moments[-1][1] is not Moment.REFUSED:
            self.note(Moment.REFUSED, error=error)
        self._keep(self)

    def let_go(self) -> None:
        """It does not live any more, however it ended."""
        self.live = None

    def close(self, record: LifecycleRecord, terminal: TerminalRecord | None) -> None:
        """It has ended, and what it was made of is let go."""
        self.live, self.record, self.terminal = None, record, terminal

    def form(self, request_id: str, changes: tuple[str, ...], refused: WeirError | None) -> "Trail":
        """Of a lesser form of the request, with what happened so far."""
        other = Trail(request_id, self.caller, self._clock, self._keep)
        other.arrived_us = self.arrived_us
        other.moments = [*self.moments]
        other.left_out = self.left_out
        other.asked = True
        other.note(Moment.DEGRADED, degradations=changes, error=refused)
        return other


def _without_frames(error: WeirError) -> WeirError:
    """What an error tells: its traceback would keep what its frames held, such as prompts."""
    if isinstance(error, LimitExceeded):
        return LimitExceeded(
            error.reason,
            error.message,
            error.violations,
            retry_after_s=error.retry_after_s,
            field=error.field,
        )
    return WeirError(
        error.reason,
        error.message,
        field=error.field,
        retry_after_s=error.retry_after_s,
        metadata=error.metadata,
    )


def begin_trail(caller: Caller, clock: Clock, keep: Keep) -> Trail:
    """A trail of the call that this task serves, whose id it has from here on."""
    trail = Trail(new_request_id(clock), caller, clock, keep)
    _current.set(trail)
    bind_request(request_id=trail.request_id)
    return trail


def trail_for(caller: Caller, clock: Clock, keep: Keep, request_id: str = "") -> Trail:
    """That of a request of this task's call, or one of its own for each further request.

    Args:
        caller, clock, keep: as `Trail`.
        request_id: given to the request by whoever keeps its answer; empty: none.
    """
    trail = _current.get()
    if request_id or trail is None or trail.asked or trail.caller is not caller:
        trail = Trail(request_id or new_request_id(clock), caller, clock, keep)
    trail.asked = True
    return trail


def note_refusal(error: WeirError, clock: Clock) -> str:
    """Keeps the refusal of this task's call; the id that its client is to be told."""
    trail = _current.get()
    if trail is None:
        return new_request_id(clock)
    trail.refuse(error)
    return trail.request_id
