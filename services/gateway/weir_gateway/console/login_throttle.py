"""How often an address may fail to sign in."""

from collections import OrderedDict

from weir_core.clock import Clock
from weir_core.errors import Reason, WeirError

_WINDOW_US = 60 * 1_000_000
_MOST_ADDRESSES = 10_000


class LoginThrottle:
    """Counts failures by address, in windows of a minute.

    Args:
        clock: time.
        most: failures in one window.
    """

    def __init__(self, clock: Clock, most: int) -> None:
        self._clock = clock
        self._most = most
        self._failed: OrderedDict[str, tuple[int, int]] = OrderedDict()

    def check(self, address: str) -> None:
        """Raises WeirError(RATE_LIMIT_EXCEEDED) when an address has failed too often."""
        began_us, count = self._failed.get(address, (0, 0))
        left_us = began_us + _WINDOW_US - self._clock.monotonic_us()
        if count >= self._most and left_us > 0:
            raise WeirError(
                Reason.RATE_LIMIT_EXCEEDED,
                f"{count} logins from this address failed within a minute; try again in "
                f"{left_us / 1e6:.0f} s",
                retry_after_s=left_us / 1e6,
            )

    def failed(self, address: str) -> None:
        """One more."""
        now_us = self._clock.monotonic_us()
        began_us, count = self._failed.pop(address, (now_us, 0))
        if now_us - began_us >= _WINDOW_US:
            began_us, count = now_us, 0
        self._failed[address] = (began_us, count + 1)
        if len(self._failed) > _MOST_ADDRESSES:
            self._failed.popitem(last=False)
