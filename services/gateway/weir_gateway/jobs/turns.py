"""Whose job is next: tenants take turns, whatever each has waiting."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from weir_gateway.jobs.tenant_windows import TenantWindows


class Turns:
    """Shares places among tenants.

    Args:
        most: places in all.
        windows: how many a tenant may have; less than `most`, so that others always find some.
    """

    def __init__(self, most: int, windows: TenantWindows) -> None:
        self._most = most
        self._windows = windows
        self._last = ""

    def share(self, waiting: Sequence[str], running: Mapping[str, int]) -> Mapping[str, int]:
        """How many jobs to take of each tenant, for those that get any.

        A free place goes to the tenant that has fewest; among equals to the one whose turn comes
        next after the last that got one.

        Args:
            waiting: tenants with jobs in the queue, by id.
            running: jobs of each tenant that run here.
        """
        free = self._most - sum(running.values())
        held = {tenant: running.get(tenant, 0) for tenant in waiting}
        order = [one for one in self._in_turn(waiting) if held[one] < self._windows.of(one)]
        shares: Counter[str] = Counter()
        while free > 0 and order:
            tenant = min(order, key=held.__getitem__)
            held[tenant] += 1
            shares[tenant] += 1
            free -= 1
            order.remove(tenant)
            if held[tenant] < self._windows.of(tenant):
                order.append(tenant)
            self._last = tenant
        return shares

    def _in_turn(self, waiting: Collection[str]) -> list[str]:
        ordered = sorted(waiting)
        return [one for one in ordered if one > self._last] + [
            one for one in ordered if one <= self._last
        ]
