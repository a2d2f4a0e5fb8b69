"""What is kept of a session between two turns."""

from weir_worker.kv.block import Block
from weir_worker.kv.cold_kv import ColdKv
from weir_worker.kv.tenant_account import TenantAccount


class Session:
    """The last committed turn: its tokens, and the blocks with their KV.

    Attributes:
        account, scope: whose, and its id.
        token_ids: tokens whose KV is kept, prompt and answer.
        blocks: pinned; the last one may be partly filled. Empty while it is cold.
        cold: its blocks in the memory of the host; None while it has them in the cache.
        ttl_us: idle life.
        expires_us: when it ends unless it is used, monotonic.
        dropped: its pins are given up.
    """

    __slots__ = (
        "account",
        "blocks",
        "cold",
        "dropped",
        "expires_us",
        "scope",
        "token_ids",
        "ttl_us",
    )

    def __init__(
        self,
        account: TenantAccount,
        scope: str,
        token_ids: list[int],
        blocks: list[Block],
        ttl_us: int,
    ) -> None:
        self.account = account
        self.scope = scope
        self.token_ids = token_ids
        self.blocks = blocks
        self.cold: ColdKv | None = None
        self.ttl_us = ttl_us
        self.expires_us = 0
        self.dropped = False

    def common(self, token_ids: list[int], block_size: int) -> int:
        """Length of the longest common token prefix."""
        mine = self.token_ids
        most = min(len(mine), len(token_ids))
        if mine[:most] == token_ids[:most]:
            return most
        at = 0
        while mine[at : at + block_size] == token_ids[at : at + block_size]:
            at += block_size
        while mine[at] == token_ids[at]:
            at += 1
        return at
