"""Whether the same request can succeed if it is sent again soon."""

from weir_core.errors.exceptions import LimitExceeded, WeirError
from weir_core.errors.reasons import Reason

# SDKs retry 409, 429 and 5xx by themselves.
_NEVER = frozenset(
    {
        Reason.BUDGET_EXHAUSTED,
        Reason.RESERVATION_CONFLICT,
        Reason.STALE_ATTEMPT,
        Reason.NOT_BUILT_YET,
    }
)


def is_futile(exc: WeirError) -> bool:
    """Whether a client that retries by itself is to be told not to.

    An exhausted budget is futile although the time of its next window is known: nobody should
    wait for tomorrow in a retry.
    """
    limited = isinstance(exc, LimitExceeded) or exc.wire.http == 429
    return exc.reason in _NEVER or (limited and exc.retry_after_s is None)
