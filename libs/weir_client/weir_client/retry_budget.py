"""What keeps retries from becoming the load that a server falls under."""

from weir_client.retry import RetryPolicy


class RetryBudget:
    """A bucket of retries for all calls of a client: each retry takes one, each success earns a
    part of one.

    While a server is away, a client adds at most `policy.earned` retries to each call that
    succeeds, once the bucket is empty.
    """

    def __init__(self, policy: RetryPolicy) -> None:
        self._most = float(policy.budget)
        self._earned = policy.earned
        self._left = self._most

    def spend(self) -> bool:
        """Takes a retry out; False if there is none."""
        if self._left < 1:
            return False
        self._left -= 1
        return True

    def earn(self) -> None:
        """Counts a success."""
        self._left = min(self._most, self._left + self._earned)
