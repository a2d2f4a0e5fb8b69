"""When a call is tried again: only before its first message, and never against the server."""

import random
from collections.abc import Callable
from dataclasses import dataclass

from weir_client.errors import ConflictError, LimitExceeded, Unavailable, WeirClientError

Uniform = Callable[[float, float], float]

_IN_PROGRESS = "IDEMPOTENCY_IN_PROGRESS"
# Callers whom one limit refused together are not to return together.
_SPREAD = 0.1


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often and how long a client waits on a server that is busy or away.

    Unavailable is tried again with exponential back-off and full jitter, or after the time that
    the server named, spread by up to a tenth. LimitExceeded is tried again only if the server
    named a time; a conflict only if it is with an earlier attempt of the same call. Nothing else
    is, nothing that the server told not to retry, and nothing once the first message of an
    answer has come.

    Attributes:
        attempts: calls in all, 1 for none but the first.
        first_delay_s: upper bound of the first wait; doubles with each try.
        longest_delay_s: bound of one wait; a server that asks for more gets no retry.
        budget: retries that a client makes beyond those that its successes earn.
        earned: retries that one success earns, 0 to 1.
    """

    attempts: int = 3
    first_delay_s: float = 0.2
    longest_delay_s: float = 8.0
    budget: int = 100
    earned: float = 0.1

    def delay_s(
        self, attempt: int, error: WeirClientError, uniform: Uniform = random.uniform
    ) -> float | None:
        """Seconds to wait after failed attempt `attempt` (from 1); None: give up."""
        if attempt >= self.attempts or error.futile or not _may_pass(error):
            return None
        if error.retry_after_s is not None:
            if error.retry_after_s > self.longest_delay_s:
                return None
            return error.retry_after_s * uniform(1.0, 1.0 + _SPREAD)
        if isinstance(error, LimitExceeded):
            return None
        return uniform(0.0, min(self.longest_delay_s, self.first_delay_s * 2 ** (attempt - 1)))


def _may_pass(error: WeirClientError) -> bool:
    if isinstance(error, ConflictError):
        return error.reason == _IN_PROGRESS
    return isinstance(error, Unavailable | LimitExceeded)
