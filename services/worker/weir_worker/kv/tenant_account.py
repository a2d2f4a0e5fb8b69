"""The blocks of one tenant."""

from collections import OrderedDict
from typing import TYPE_CHECKING

from weir_worker.kv.block_list import BlockList

if TYPE_CHECKING:
    from weir_worker.kv.session import Session


class TenantAccount:
    """Counts, kept up to date by the pool and the sessions; nobody else writes them.

    Attributes:
        tenant: whose.
        weight: soft share, by ratio; the newest request's.
        running: blocks that sequences hold, each once.
        pinned: blocks that sessions alone hold, each once.
        cached: findable blocks that nobody holds, the longest unused first.
        sessions: with blocks, by scope, the longest unused first.
        cold: sessions in the memory of the host, likewise.
        host_blocks: blocks of those.
        tables: open block tables.
        watched: it has a place in the order of expiry.
    """

    __slots__ = (
        "cached",
        "cold",
        "host_blocks",
        "pinned",
        "running",
        "sessions",
        "tables",
        "tenant",
        "watched",
        "weight",
    )

    def __init__(self, tenant: str, weight: int = 1) -> None:
        self.tenant = tenant
        self.weight = weight
        self.running = 0
        self.pinned = 0
        self.cached = BlockList()
        self.sessions: OrderedDict[str, Session] = OrderedDict()
        self.cold: OrderedDict[str, Session] = OrderedDict()
        self.host_blocks = 0
        self.tables = 0
        self.watched = False

    @property
    def footprint(self) -> int:
        """Blocks with the tenant's tokens."""
        return self.running + self.pinned + len(self.cached)

    @property
    def held(self) -> int:
        """Blocks that sequences or sessions hold, each once: what a quota bounds."""
        return self.running + self.pinned

    @property
    def in_use(self) -> bool:
        """Whether anything refers to the account."""
        return bool(self.tables or self.footprint or self.sessions or self.cold)

    def is_over(self, other: "TenantAccount") -> bool:
        """Whether it takes more of its share than another; equal ones in order of name."""
        mine, theirs = self.footprint * other.weight, other.footprint * self.weight
        return (mine, self.tenant) > (theirs, other.tenant)

    def is_over_in_host(self, other: "TenantAccount") -> bool:
        """Whether it takes more of its share of the host's memory; equal ones in order of name."""
        mine, theirs = self.host_blocks * other.weight, other.host_blocks * self.weight
        return (mine, self.tenant) > (theirs, other.tenant)
