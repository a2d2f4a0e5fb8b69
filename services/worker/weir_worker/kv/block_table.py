"""The blocks that one sequence holds, in order of position."""

from weir_worker.kv.block import Block
from weir_worker.kv.block_chain import BlockChain


class BlockTable:
    """A sequence's claim on the cache. Only `KvManager` changes it.

    Attributes:
        tenant: who is charged for its blocks.
        chain: hashes of its full blocks.
        blocks: held blocks; empty before admission and after release.
        indices: their places in the cache tensors: the model reads this very list.
        committed: leading blocks whose KV is written.
    """

    __slots__ = ("blocks", "chain", "committed", "indices", "tenant")

    def __init__(self, tenant: str, chain: BlockChain) -> None:
        self.tenant = tenant
        self.chain = chain
        self.blocks: list[Block] = []
        self.indices: list[int] = []
        self.committed = 0

    def capacity(self) -> int:
        """Tokens that fit in the held blocks."""
        return len(self.blocks) * self.chain.block_size
