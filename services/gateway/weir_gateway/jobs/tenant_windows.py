"""How many jobs of a tenant are worth running at once, learnt from what its limits refuse.

A window for each tenant, as TCP has one (RFC 5681): a refusal for concurrency says that one too
many ran; after as many ends as run at once it is tried whether one more fits.
"""


class TenantWindows:
    """Windows by tenant.

    Args:
        most: of any tenant, and of those that were never refused.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._learnt: dict[str, float] = {}

    def of(self, tenant_id: str) -> int:
        """How many may run at once, at least 1."""
        return int(self._learnt.get(tenant_id, self._most))

    def refused(self, tenant_id: str, others: int) -> None:
        """One was refused while `others` ran."""
        self._learnt[tenant_id] = float(max(1, min(others, self._most)))

    def ended(self, tenant_id: str) -> None:
        """One has run to its end."""
        learnt = self._learnt.get(tenant_id)
        if learnt is None:
            return
        learnt += 1 / learnt
        if learnt >= self._most:
            del self._learnt[tenant_id]
        else:
            self._learnt[tenant_id] = learnt
