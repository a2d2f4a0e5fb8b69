"""Which refusals of a job are worth another attempt, and when."""

import random

from weir_core.errors import Reason, WeirError

_LEAST_MS = 500
_MOST_MS = 300_000

# The request can do nothing about these, nor can its owner.
_FAULTS = frozenset(
    {
        Reason.WORKER_LOST,
        Reason.ENGINE_FAILED,
        Reason.INTERNAL,
        Reason.STALE_ATTEMPT,
        Reason.GRANT_INVALID,
        Reason.RESERVATION_NOT_FOUND,
        Reason.RESERVATION_EXPIRED,
        Reason.RESERVATION_CONFLICT,
        Reason.RESERVATION_RECORD_INVALID,
        Reason.DEADLINE_EXCEEDED,
    }
)
_LATER = frozenset(
    {
        Reason.QUEUE_FULL,
        Reason.QUEUE_TIMEOUT,
        Reason.LIMITER_UNAVAILABLE,
        Reason.SCHEDULER_UNAVAILABLE,
        Reason.DIRECTORY_UNAVAILABLE,
        Reason.STATE_UNAVAILABLE,
        Reason.NO_WORKER,
        Reason.DRAINING,
        Reason.OVERLOADED,
        Reason.PREEMPTED,
        Reason.NOT_LEADER,
        Reason.NOT_BUILT_YET,
    }
)


def is_fault(error: WeirError) -> bool:
    """Whether an attempt failed that might have gone well: tried again, but not for ever."""
    return error.reason in _FAULTS


def is_worth_waiting(error: WeirError) -> bool:
    """Whether the same job may be admitted later: a limit with a time, or a part that is away."""
    return error.retry_after_s is not None or error.reason in _LATER


def wait_ms(error: WeirError, tried: int) -> int:
    """Until the next attempt, milliseconds: what the refusal says, else doubling from 0.5 s.

    Up to a fifth is added at random, so that what was refused together does not come together.
    """
    if error.retry_after_s is not None:
        told_ms = max(_LEAST_MS, round(error.retry_after_s * 1_000))
    else:
        told_ms = min(_MOST_MS, _LEAST_MS << min(max(tried, 1) - 1, 10))
    return told_ms + random.randrange(told_ms // 5 + 1)
