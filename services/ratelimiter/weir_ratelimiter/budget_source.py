"""Where the use of a budget is known of which the store knows nothing."""

from typing import Protocol

from weir_ratelimiter.domain.calendar import Window
from weir_ratelimiter.domain.limit import Limit


class BudgetSource(Protocol):
    """What was charged to windows before the store knew them; implemented by the ledger."""

    async def used(self, tenant_id: str, limit: Limit, window: Window) -> int:
        """Units of `limit.resource` charged to one window of a limit, less what was given.

        Counts what was reserved (not settled) within the window by whoever the limit is of, and
        every event that waited in the outbox when this was called, whichever process wrote it.

        Args:
            tenant_id: to whom the limit applies; of a limit of all tenants, anybody.
            limit: a budget.
            window: one of its windows.

        Raises:
            WeirError: LIMITER_UNAVAILABLE if it cannot be read.
        """


class NoLedger:
    """A `BudgetSource` where there is no ledger: nothing was used before."""

    async def used(self, tenant_id: str, limit: Limit, window: Window) -> int:
        """Zero."""
        return 0
