"""Whose job is next: tenants take turns, whatever each has waiting."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence


class Turns:
    """Shares places among tenants.

    Args:
        most: places in all.
        most_of_tenant: of one tenant; less than `most`, so that others always find some.
    """

    def __init__(self, *, most: int, most_of_tenant: int) -> None:
        self._most = most
        self._most_of_tenant = most_of_tenant
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
        order = self._in_turn(waiting)
        held = {tenant: running.get(tenant, 0) for tenant in order}
        shares: Counter[str] = Counter()
        while free > 0 and held:
            tenant = min(order, key=held.__getitem__)
            if held[tenant] >= self._most_of_tenant:
                break
            held[tenant] += 1
            shares[tenant] += 1
            free -= 1
            order = [*(one for one in order if one != tenant), tenant]
            self._last = tenant
        return shares

    def _in_turn(self, waiting: Collection[str]) -> list[str]:
        ordered = sorted(waiting)
        return [one for one in ordered if one > self._last] + [
            one for one in ordered if one <= self._last
        ]
