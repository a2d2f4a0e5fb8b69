"""When a call is tried again: only before its first message, and never against the server."""

import random
from collections.abc import Callable
from dataclasses import dataclass

from weir_client.errors import LimitExceeded, Unavailable, WeirClientError


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often and how long a client waits on a server that is busy or away.

    Unavailable is tried again with exponential back-off and full jitter, or after the time that
    the server named. LimitExceeded is tried again only if the server named a time. Nothing else
    is, and nothing once the first message of an answer has come.

    Attributes:
        attempts: calls in all, 1 for none but the first.
        first_delay_s: upper bound of the first wait; doubles with each try.
        longest_delay_s: bound of one wait; a server that asks for more gets no retry.
    """

    attempts: int = 3
    first_delay_s: float = 0.2
    longest_delay_s: float = 8.0

    def delay_s(
        self,
        attempt: int,
        error: WeirClientError,
        uniform: Callable[[float, float], float] = random.uniform,
    ) -> float | None:
        """Seconds to wait after failed attempt `attempt` (from 1); None: give up."""
        if attempt >= self.attempts or not isinstance(error, Unavailable | LimitExceeded):
            return None
        if error.retry_after_s is not None:
            return error.retry_after_s if error.retry_after_s <= self.longest_delay_s else None
        if isinstance(error, LimitExceeded):
            return None
        return uniform(0.0, min(self.longest_delay_s, self.first_delay_s * 2 ** (attempt - 1)))
