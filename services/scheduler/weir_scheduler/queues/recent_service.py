"""What tenants were served lately: for operators, who compare it with weights."""

from collections import deque
from collections.abc import Mapping

WINDOW_US = 60_000_000
_SLOT_US = 5_000_000
_MOST_TENANTS = 1_024


class RecentService:
    """Sums of a sliding window, in slots; a charge costs one addition.

    Beyond so many tenants in one slot, those that come later are not told of.
    """

    def __init__(self) -> None:
        self._slots: deque[tuple[int, dict[str, int]]] = deque()

    def add(self, tenant_id: str, service: int, now_us: int) -> None:
        """Counts weighted tokens; negative ones are given back."""
        number = now_us // _SLOT_US
        if not self._slots or self._slots[-1][0] != number:
            self._slots.append((number, {}))
            self._drop(number)
        slot = self._slots[-1][1]
        if tenant_id in slot or len(slot) < _MOST_TENANTS:
            slot[tenant_id] = slot.get(tenant_id, 0) + service

    def totals(self, now_us: int) -> Mapping[str, int]:
        """By tenant, within the last `WINDOW_US`; what was given back later counts as nothing."""
        self._drop(now_us // _SLOT_US)
        totals: dict[str, int] = {}
        for _, slot in self._slots:
            for tenant_id, service in slot.items():
                totals[tenant_id] = totals.get(tenant_id, 0) + service
        return {tenant_id: total for tenant_id, total in totals.items() if total > 0}

    def _drop(self, number: int) -> None:
        while self._slots and self._slots[0][0] <= number - WINDOW_US // _SLOT_US:
            self._slots.popleft()
