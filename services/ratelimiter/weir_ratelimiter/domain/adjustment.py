"""An operator's adjustment of one limit: a goodwill credit, a debt forgiven, units taken."""

import msgspec

from weir_core.bucket import MAX_UNITS
from weir_core.errors import InvalidField, Reason, WeirError
from weir_ratelimiter.domain.change import (
    Bucket,
    Change,
    Count,
    EventKind,
    LedgerEvent,
    Move,
    WindowMove,
)
from weir_ratelimiter.domain.levels import Levels
from weir_ratelimiter.domain.limit import Limit
from weir_ratelimiter.domain.subject import Subject
from weir_ratelimiter.domain.usage import Quality, Usage


class Adjustment(msgspec.Struct, frozen=True, gc=False):
    """Units to give (positive) or to take.

    Attributes:
        id: idempotency key in the tenant.
        limit: a bucket or a window.
        note: for the ledger.
    """

    id: str
    subject: Subject
    limit: Limit
    units: int
    note: str


def adjust(adjustment: Adjustment, levels: Levels, now_ms: int) -> Change:
    """Move one limit and write it to the ledger.

    A bucket is filled to its capacity at most, and the ledger is told what fitted. What is given
    to a window beyond its use is an extra budget until the window ends. A window that is not
    known counts nothing yet.

    Raises:
        InvalidField: the level would leave -2^53..2^53.
    """
    given = adjustment.units
    moves: tuple[Move, ...] = ()
    counts: tuple[WindowMove, ...] = ()
    if adjustment.limit.calendar is None:
        bucket = levels.bucket(adjustment.limit, now_ms)
        move = _move(adjustment, bucket)
        moves, given = (move,), move.bucket.level - bucket.level
    else:
        window = adjustment.limit.calendar.window(now_ms).id
        count = levels.window(adjustment.limit.key, window)
        if count is not None:
            counts = (_window_move(adjustment, window, count),)
    return Change(now_ms, moves, None, event_of(adjustment, given, now_ms), counts)


def check_repeated(adjustment: Adjustment, made: LedgerEvent) -> None:
    """Check that an adjustment whose id was used before is the one that was made.

    Raises:
        WeirError: IDEMPOTENCY_CONFLICT if it is another.
    """
    asked = (adjustment.limit.key, adjustment.units, adjustment.note)
    if asked != (made.limit_id, made.asked, made.note):
        raise WeirError(
            Reason.IDEMPOTENCY_CONFLICT,
            "adjustment_id was used before for another adjustment; use a new one",
            field="adjustment_id",
        )


def _move(adjustment: Adjustment, bucket: Bucket) -> Move:
    shape, units = bucket.shape, adjustment.units
    _check_level(units, bucket.level + units)
    if units >= 0:
        state = shape.credited(bucket.state, units)
    else:
        state = shape.debited(bucket.state, -units)
    return Move(adjustment.limit.key, -units, Bucket(shape, state))


def _window_move(adjustment: Adjustment, window: str, count: Count) -> WindowMove:
    used = count.used - adjustment.units
    _check_level(adjustment.units, used)
    return WindowMove(adjustment.limit.key, window, Count(used, count.held))


def _check_level(units: int, level: int) -> None:
    if abs(level) > MAX_UNITS:
        raise InvalidField("units", units, "a level within -2^53..2^53 afterwards")


def event_of(adjustment: Adjustment, given: int, now_ms: int) -> LedgerEvent:
    """What the ledger is told of an adjustment that gave `given` units, or took them."""
    return LedgerEvent(
        reservation_id=adjustment.id,
        kind=EventKind.GRANT,
        request_id="",
        subject=adjustment.subject,
        charged=Usage(),
        previous=Usage(),
        quality=Quality.EXACT,
        outcome=0,
        price_version=0,
        created_ms=now_ms,
        settled_ms=now_ms,
        lifecycle=b"",
        limit_id=adjustment.limit.key,
        units=given,
        note=adjustment.note,
        asked=adjustment.units,
    )
