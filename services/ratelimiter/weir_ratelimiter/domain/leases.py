"""Leases of one concurrency limit."""

from collections.abc import Iterator

_LEAST_WAIT_MS = 1_000


class LeaseSet:
    """Who holds a place, and until when. A lease that has lapsed holds none."""

    def __init__(self) -> None:
        self._leases: dict[str, tuple[int, int]] = {}
        self._earliest_ms = 0
        """No lease ends before."""
        self._acquired_sum_ms = 0

    def __len__(self) -> int:
        return len(self._leases)

    def __contains__(self, holder: str) -> bool:
        return holder in self._leases

    def hold(self, holder: str, now_ms: int, expires_ms: int) -> None:
        """Give `holder` a lease, or renew the one that it has.

        Whoever lapsed loses its place to a new holder, for ever: the clock may go back.
        """
        held = self._leases.get(holder)
        if held is None:
            self._drop_lapsed(now_ms)
        self.restore(holder, now_ms if held is None else held[0], expires_ms)

    def restore(self, holder: str, acquired_ms: int, expires_ms: int) -> None:
        """Put a lease in place as it is, such as one of `rows`."""
        held = self._leases.get(holder)
        self._acquired_sum_ms += acquired_ms - (0 if held is None else held[0])
        self._earliest_ms = min(self._earliest_ms, expires_ms) if self._leases else expires_ms
        self._leases[holder] = (acquired_ms, expires_ms)

    def release(self, holder: str) -> None:
        """Free the place of `holder`, if it has one."""
        held = self._leases.pop(holder, None)
        if held is not None:
            self._acquired_sum_ms -= held[0]

    def rows(self) -> Iterator[tuple[str, int, int]]:
        """Holder, start and end of every lease, Unix milliseconds."""
        for holder, (acquired_ms, expires_ms) in self._leases.items():
            yield holder, acquired_ms, expires_ms

    def held(self, now_ms: int) -> int:
        """Places taken at `now_ms`."""
        if now_ms < self._earliest_ms:
            return len(self._leases)
        self._find_earliest()
        return sum(expires_ms > now_ms for _, expires_ms in self._leases.values())

    def wait_ms(self, now_ms: int) -> int:
        """See `lease_wait_ms`."""
        taken, number = self.held(now_ms), len(self._leases)
        ages_ms = number * now_ms - self._acquired_sum_ms
        until_lapse_ms = self._next_lapse_ms(now_ms) - now_ms if taken else 0
        return lease_wait_ms(taken, number, ages_ms, until_lapse_ms)

    def _next_lapse_ms(self, now_ms: int) -> int:
        if now_ms < self._earliest_ms:
            return self._earliest_ms
        return min(expires_ms for _, expires_ms in self._leases.values() if expires_ms > now_ms)

    def _drop_lapsed(self, now_ms: int) -> None:
        if now_ms < self._earliest_ms:
            return
        for holder in [h for h, (_, expires_ms) in self._leases.items() if expires_ms <= now_ms]:
            self.release(holder)
        self._find_earliest()

    def _find_earliest(self) -> None:
        self._earliest_ms = min((ends for _, ends in self._leases.values()), default=0)


def lease_wait_ms(taken: int, number: int, ages_ms: int, until_lapse_ms: int) -> int:
    """Estimated milliseconds until a place is free, at least 1,000.

    The mean age of the leases over their number (by renewal, the mean residual life of one
    equals its mean age), at most until the first would lapse without a heartbeat.

    Args:
        taken: places taken.
        number: leases, those included that lapsed and were not removed yet.
        ages_ms: sum of their ages.
        until_lapse_ms: until the next of them lapses.
    """
    if taken == 0:
        return _LEAST_WAIT_MS
    mean_age_ms = -(-ages_ms // number)
    return max(_LEAST_WAIT_MS, min(mean_age_ms // number, until_lapse_ms))
