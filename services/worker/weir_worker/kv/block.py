"""One block of the KV cache, as the manager sees it."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weir_worker.kv.tenant_account import TenantAccount


class Block:
    """A physical block; links of lists live on it, so that no step allocates.

    It is in one of four states: free (`account` is None), cached (findable, referenced by
    nobody), running (`ref_count` above 0), or pinned (`pins` above 0 and `ref_count` 0).

    Attributes:
        index: its place in the cache tensors.
        ref_count: block tables of sequences that hold it.
        pins: sessions that keep it.
        hash: key under which it can be found; None while it is not published.
        granules: names under which the scheduler knows the prefixes that end in it.
        account: of the tenant whose tokens it holds; None while it is free.
        parked_us: when it became cached.
        prev, next: neighbours in the list of free blocks, or of the tenant's cached ones.
    """

    __slots__ = (
        "account",
        "granules",
        "hash",
        "index",
        "next",
        "parked_us",
        "pins",
        "prev",
        "ref_count",
    )

    def __init__(self, index: int) -> None:
        self.index = index
        self.ref_count = 0
        self.pins = 0
        self.hash: bytes | None = None
        self.granules: tuple[bytes, ...] = ()
        self.account: TenantAccount | None = None
        self.parked_us = 0
        self.prev: Block | None = None
        self.next: Block | None = None

    @property
    def idle(self) -> bool:
        """Whether no sequence holds it."""
        return self.ref_count == 0
