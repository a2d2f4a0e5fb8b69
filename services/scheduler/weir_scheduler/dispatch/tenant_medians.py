"""One number a tenant, and the middle one of them."""

from bisect import bisect_left, insort


class TenantMedians:
    """The median over tenants, each counting once however much it sends."""

    __slots__ = ("_by_size", "_by_tenant")

    def __init__(self) -> None:
        self._by_tenant: dict[str, int] = {}
        self._by_size: list[int] = []

    def __len__(self) -> int:
        return len(self._by_tenant)

    def put(self, tenant_id: str, value: int) -> None:
        """Sets or replaces a tenant's number."""
        if self._by_tenant.get(tenant_id) == value:
            return
        self.discard(tenant_id)
        self._by_tenant[tenant_id] = value
        insort(self._by_size, value)

    def discard(self, tenant_id: str) -> None:
        """Takes a tenant's number out, if it has one."""
        known = self._by_tenant.pop(tenant_id, None)
        if known is not None:
            del self._by_size[bisect_left(self._by_size, known)]

    def middle(self) -> int:
        """The upper median. Raises IndexError when there are none."""
        return self._by_size[len(self._by_size) // 2]
