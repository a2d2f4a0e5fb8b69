"""How often a tenant may ask the console, whose answers cost the services work."""

from collections import OrderedDict

from weir_core.bucket import BucketShape, BucketState
from weir_core.clock import Clock
from weir_core.errors import Reason, WeirError

_PER_S, _BURST = 20, 100
_MOST_TENANTS = 10_000


class Pace:
    """A bucket for each tenant, over all its sessions. Administrators have none.

    Args:
        clock: time.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._shape = BucketShape.of(_BURST, _PER_S, 1_000)
        self._states: OrderedDict[str, BucketState] = OrderedDict()

    def take(self, tenant_id: str) -> None:
        """Counts a call; an empty id: of an administrator.

        Raises:
            WeirError: RATE_LIMIT_EXCEEDED.
        """
        if not tenant_id:
            return
        now_ms = self._clock.monotonic_us() // 1_000
        known = self._states.pop(tenant_id, None)
        state = self._shape.full(now_ms) if known is None else self._shape.refilled(known, now_ms)
        enough = self._shape.level(state) >= 1
        self._states[tenant_id] = self._shape.debited(state, 1) if enough else state
        if len(self._states) > _MOST_TENANTS:
            self._states.popitem(last=False)
        if not enough:
            raise WeirError(
                Reason.RATE_LIMIT_EXCEEDED,
                f"the console answers a tenant {_PER_S} calls a second; close some of its pages",
                retry_after_s=1,
            )
