"""How many may watch at once."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from weir_core.errors import Reason, WeirError


class Places:
    """Places of tenants, of which none takes all. Administrators need none.

    Args:
        each: of one tenant.
        most: of all tenants.
    """

    def __init__(self, each: int, most: int) -> None:
        self._each = each
        self._most = most
        self._taken: Counter[str] = Counter()

    @contextmanager
    def taken(self, tenant_id: str) -> Iterator[None]:
        """A place for as long as this lasts; an empty id: of an administrator.

        Raises:
            WeirError: RATE_LIMIT_EXCEEDED: there is none.
        """
        self._check(tenant_id)
        self._taken[tenant_id] += 1
        try:
            yield
        finally:
            self._taken[tenant_id] -= 1
            if not self._taken[tenant_id]:
                del self._taken[tenant_id]

    def _check(self, tenant_id: str) -> None:
        if not tenant_id:
            return
        taken = self._taken.total() - self._taken[""]
        if self._taken[tenant_id] >= self._each or taken >= self._most:
            raise WeirError(
                Reason.RATE_LIMIT_EXCEEDED,
                f"{self._taken[tenant_id]} watches of the tenant are open, of at most "
                f"{self._each}, or {self._most} of all tenants; end one",
                retry_after_s=10,
            )
