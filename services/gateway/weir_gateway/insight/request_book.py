"""Trails of requests by id: those that live, and of the others the newest of each tenant."""

from collections.abc import Iterator, Sequence
from itertools import islice

from weir_core.clock import Clock
from weir_gateway.flow.trail import Trail

_SWEEP_US = 60_000_000
_PARTS = 64
"""So many times the whole room is cut back for once its worth of new trails."""


class RequestBook:
    """Keeps trails within a bound, of which no tenant can take another's part.

    What does not fit any more goes from the tenant that has most, its oldest first: however
    much one tenant sends, the trails of one that has fewer stay.

    Args:
        clock: for ages.
        most: trails in all; those of requests that live are never dropped.
        keep_s: age after which the others are.
    """

    def __init__(self, clock: Clock, *, most: int, keep_s: float) -> None:
        self._clock = clock
        self._most = most
        self._keep_us = round(keep_s * 1_000_000)
        self._all: dict[str, Trail] = {}
        self._of_tenant: dict[str, dict[str, Trail]] = {}
        self._swept_us = clock.monotonic_us()

    def __len__(self) -> int:
        return len(self._all)

    def keep(self, trail: Trail) -> None:
        """A request was refused, or is about to be reserved."""
        self._all[trail.request_id] = trail
        self._of_tenant.setdefault(trail.caller.tenant_id, {})[trail.request_id] = trail
        now_us = self._clock.monotonic_us()
        if now_us - self._swept_us > _SWEEP_US:
            self._swept_us = now_us
            self._sweep()
        if len(self._all) > self._most:
            self._cut_back()

    def find(self, request_id: str) -> Trail | None:
        """The trail of that id."""
        trail = self._all.get(request_id)
        return None if trail is None or trail.gone or self._is_old(trail) else trail

    def trails(self, tenant_id: str = "") -> Iterator[Trail]:
        """Those of a tenant, or of all, in no order."""
        kept = self._of_tenant.get(tenant_id, {}) if tenant_id else self._all
        for trail in list(kept.values()):
            if not trail.gone and not self._is_old(trail):
                yield trail

    def _is_old(self, trail: Trail) -> bool:
        return trail.live is None and self._clock.now_us() - trail.arrived_us > self._keep_us

    def _sweep(self) -> None:
        for trail in [*self._all.values()]:
            if trail.live is None and (trail.gone or self._is_old(trail)):
                self._drop(trail)

    def _cut_back(self) -> None:
        """Makes room for a while, by cutting the tenants that have most down to one level."""
        needed = len(self._all) - self._most + self._most // _PARTS
        level = level_for(sorted(map(len, self._of_tenant.values()), reverse=True), needed)
        for trails in [*self._of_tenant.values()]:
            over = len(trails) - level
            ended = (trail for trail in [*trails.values()] if trail.live is None)
            for trail in islice(ended, max(0, over)):
                self._drop(trail)

    def _drop(self, trail: Trail) -> None:
        self._all.pop(trail.request_id, None)
        trails = self._of_tenant.get(trail.caller.tenant_id, {})
        trails.pop(trail.request_id, None)
        if not trails:
            self._of_tenant.pop(trail.caller.tenant_id, None)


def level_for(sizes: Sequence[int], needed: int) -> int:
    """The size down to which the largest are to be cut for `needed` to be freed.

    Args:
        sizes: largest first.
        needed: at least 1.
    """
    freed = 0
    for at, size in enumerate(sizes, start=1):
        below = sizes[at] if at < len(sizes) else 0
        step = (size - below) * at
        if freed + step >= needed:
            return size - -(-(needed - freed) // at)
        freed += step
    return 0
