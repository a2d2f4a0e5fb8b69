"""What every way of taking turns between tenants offers."""

from collections.abc import Iterable
from typing import Protocol

from weir_scheduler.queues.entry import QueueEntry
from weir_scheduler.queues.tenant_queue import TenantQueue


class TenantRound(Protocol):
    """The waiting requests of one class, by tenant, and whose turn it is."""

    def __len__(self) -> int:
        """Requests that wait, those of blocked tenants included."""

    def add(self, entry: QueueEntry) -> None:
        """Adds a request. Raises ValueError when it waits already."""

    def remove(self, entry: QueueEntry) -> None:
        """Takes a request out. Raises KeyError when it does not wait."""

    def head(self, now_us: int) -> QueueEntry | None:
        """The request whose turn it is; None when every waiting tenant is blocked."""

    def dispatched(self, entry: QueueEntry, now_us: int) -> None:
        """Takes the head out because it goes to a worker."""

    def charge(self, tenant_id: str, service: int) -> None:
        """Adds weighted tokens of service to a tenant; negative gives back."""

    def block(self, tenant_id: str) -> None:
        """Passes over a tenant that is at a limit of its own."""

    def unblock(self, tenant_id: str) -> None:
        """Lets a tenant take part again."""

    def ready(self) -> bool:
        """Whether some waiting tenant is not blocked."""

    def queue_of(self, tenant_id: str) -> TenantQueue | None:
        """The queue of a tenant; None when nothing of it waits."""

    def counter(self, tenant_id: str) -> int:
        """Service counted for a tenant, in 1/`service_counters.SCALE` weighted tokens over weight.

        The least goes first; 0 where turns are not by service.
        """

    def tenants(self) -> Iterable[str]:
        """Tenants of which something waits."""
