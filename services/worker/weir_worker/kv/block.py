"""One block of the KV cache, as the manager sees it."""


class Block:
    """A physical block; links of the free list live on it, so that no step allocates.

    Attributes:
        index: its place in the cache tensors.
        ref_count: block tables that hold it.
        hash: key under which it can be found; None while it is not published.
        tenant: who holds it, or who filled it last.
        prev, next: neighbours in the free list; None when held.
    """

    __slots__ = ("hash", "index", "next", "prev", "ref_count", "tenant")

    def __init__(self, index: int) -> None:
        self.index = index
        self.ref_count = 0
        self.hash: bytes | None = None
        self.tenant = ""
        self.prev: Block | None = None
        self.next: Block | None = None
