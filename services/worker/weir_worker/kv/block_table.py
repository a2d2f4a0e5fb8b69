"""The blocks that one sequence holds, in order of position."""

from weir_worker.kv.block import Block
from weir_worker.kv.block_chain import BlockChain
from weir_worker.kv.tenant_account import TenantAccount


class BlockTable:
    """A sequence's claim on the cache. Only `KvManager` changes it.

    Attributes:
        account: who is charged for its blocks.
        chain: hashes of its full blocks.
        quota: most blocks that the tenant may hold with it; 0: no bound.
        blocks: held blocks; empty before admission and after release.
        indices: their places in the cache tensors: the model reads this very list.
        committed: leading blocks whose KV is written.
        closed: its sequence has ended.
    """

    __slots__ = ("account", "blocks", "chain", "closed", "committed", "indices", "quota")

    def __init__(self, account: TenantAccount, chain: BlockChain, quota: int) -> None:
        self.account = account
        self.chain = chain
        self.quota = quota
        self.blocks: list[Block] = []
        self.indices: list[int] = []
        self.committed = 0
        self.closed = False

    @property
    def tenant(self) -> str:
        """Whose it is."""
        return self.account.tenant

    def capacity(self) -> int:
        """Tokens that fit in the held blocks."""
        return len(self.blocks) * self.chain.block_size

    def exceeds_quota(self, more: int) -> bool:
        """Whether the tenant's sequences would hold too much with so many blocks more."""
        return bool(self.quota) and self.account.running + more > self.quota
