"""Leases of one concurrency limit."""

_LEAST_WAIT_MS = 1_000


class LeaseSet:
    """Who holds a place, and until when. A lease that has lapsed holds none."""

    def __init__(self) -> None:
        self._leases: dict[str, tuple[int, int]] = {}
        self._earliest_ms = 0
        self._acquired_sum_ms = 0

    def __len__(self) -> int:
        return len(self._leases)

    def __contains__(self, holder: str) -> bool:
        return holder in self._leases

    def hold(self, holder: str, now_ms: int, expires_ms: int) -> None:
        """Give `holder` a lease, or renew the one that it has."""
        held = self._leases.get(holder)
        acquired_ms = now_ms if held is None else held[0]
        if held is None:
            self._acquired_sum_ms += acquired_ms
        self._earliest_ms = min(self._earliest_ms, expires_ms) if self._leases else expires_ms
        self._leases[holder] = (acquired_ms, expires_ms)

    def release(self, holder: str) -> None:
        """Free the place of `holder`, if it has one."""
        held = self._leases.pop(holder, None)
        if held is not None:
            self._acquired_sum_ms -= held[0]

    def held(self, now_ms: int) -> int:
        """Places taken at `now_ms`."""
        if now_ms >= self._earliest_ms:
            self._drop_lapsed(now_ms)
        return len(self._leases)

    def wait_ms(self, now_ms: int) -> int:
        """Estimated milliseconds until a place is free, at least 1,000.

        The mean age of the leases over their number (by renewal, the mean residual life of
        one equals its mean age), at most until the first would lapse without a heartbeat.
        """
        held = self.held(now_ms)
        if held == 0:
            return _LEAST_WAIT_MS
        mean_age_ms = now_ms - self._acquired_sum_ms // held
        until_lapse_ms = self._earliest_ms - now_ms
        return max(_LEAST_WAIT_MS, min(mean_age_ms // held, until_lapse_ms))

    def _drop_lapsed(self, now_ms: int) -> None:
        for holder in [h for h, (_, expires_ms) in self._leases.items() if expires_ms <= now_ms]:
            self.release(holder)
        self._earliest_ms = min((e for _, e in self._leases.values()), default=0)
