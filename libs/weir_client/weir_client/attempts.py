"""The attempts of one call, within one deadline."""

import asyncio
import time

from weir_client.errors import WeirClientError
from weir_client.retry import RetryPolicy
from weir_client.retry_budget import RetryBudget


class Attempts:
    """Counts the attempts of one call, and waits between them.

    Args:
        policy: when a failed attempt is followed by another.
        budget: of the client.
        timeout_s: deadline of the call, all attempts and waits included.
    """

    def __init__(self, policy: RetryPolicy, budget: RetryBudget, timeout_s: float) -> None:
        self._policy = policy
        self._budget = budget
        self._ends_at = time.monotonic() + timeout_s
        self.made = 0

    def begin(self) -> float:
        """Begins another; returns the seconds that it may take."""
        self.made += 1
        return max(0.0, self._ends_at - time.monotonic())

    def uncount(self) -> None:
        """The last one does not count: what the server refused was left out of the next."""
        self.made -= 1

    def succeeded(self) -> None:
        """The call was answered."""
        self._budget.earn()

    async def wait_after(self, error: WeirClientError) -> None:
        """Waits until the next may begin.

        Raises:
            WeirClientError: `error` itself, if there is to be no other: by the policy, because
                the deadline comes first, or because the budget is spent.
        """
        delay_s = self._policy.delay_s(self.made, error)
        if delay_s is None or time.monotonic() + delay_s >= self._ends_at:
            raise error
        if not self._budget.spend():
            raise error
        await asyncio.sleep(delay_s)
