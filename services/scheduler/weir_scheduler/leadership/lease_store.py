"""Where the lease lies."""

from typing import Protocol

from weir_scheduler.leadership.lease import Bid


class StoreAway(Exception):
    """The store did not answer; it may have done what it was asked all the same."""


class LeaseStore(Protocol):
    """One value, changed by compare-and-set."""

    async def bid(self, bid: Bid) -> str:
        """Does what `Bid` says and returns what the store holds then. Raises StoreAway."""

    async def note(self, text: str) -> None:
        """Keeps a note of the active scheduler beside the lease. Raises StoreAway."""

    async def noted(self) -> str:
        """The note kept last; empty for none. Raises StoreAway."""

    async def close(self) -> None:
        """Releases connections."""
