"""Allocation of KV blocks to sequences, with sharing of equal prefixes.

Mechanics after vLLM's block pool (SOSP 2023 and its v1 core): reference counts, a hash map
over full blocks, lazy eviction in LRU order.
"""

from collections import Counter

from weir_worker.kv.block import Block
from weir_worker.kv.block_chain import BlockChain, PrefixScopes
from weir_worker.kv.block_table import BlockTable
from weir_worker.kv.counters import CacheCounters
from weir_worker.kv.free_list import FreeList


class KvManager:
    """Owner of all blocks: each one is free, cached (findable, unreferenced) or held.

    Single-threaded. A method either does all of what it says or nothing.

    Args:
        num_blocks: usable blocks, at least 1.
        block_size: tokens of a block.
        verify_tokens: keep and compare the tokens of every published block (debugging).
    """

    def __init__(self, num_blocks: int, block_size: int, *, verify_tokens: bool = False) -> None:
        self.block_size = block_size
        self.blocks = tuple(Block(index) for index in range(num_blocks))
        self.free_list = FreeList(self.blocks)
        self.published: dict[bytes, Block] = {}
        self.cached_blocks = 0
        self.held_by_tenant: Counter[str] = Counter()
        self.counters = CacheCounters()
        self._tokens: dict[bytes, tuple[int, ...]] | None = {} if verify_tokens else None

    @property
    def total_blocks(self) -> int:
        """All blocks."""
        return len(self.blocks)

    @property
    def available_blocks(self) -> int:
        """Blocks that can be allocated now: free and cached ones."""
        return len(self.free_list)

    @property
    def free_blocks(self) -> int:
        """Blocks without content."""
        return len(self.free_list) - self.cached_blocks

    @property
    def held_blocks(self) -> int:
        """Blocks that some table references."""
        return len(self.blocks) - len(self.free_list)

    def blocks_for(self, num_tokens: int) -> int:
        """Blocks that cover `num_tokens`."""
        return -(-num_tokens // self.block_size)

    def open_table(self, tenant: str, token_ids: list[int], scopes: PrefixScopes) -> BlockTable:
        """Make an empty table over a sequence's (growing) list of tokens."""
        return BlockTable(tenant, BlockChain(token_ids, self.block_size, scopes))

    def allocate(
        self, table: BlockTable, num_tokens: int, *, keep_available: int = 0, count: bool = True
    ) -> int | None:
        """Look up the longest cached prefix and take blocks for all of `num_tokens`.

        At most `num_tokens - 1` tokens are hit, since the last one must be computed for its
        logits. With `count` the look-up enters the hit rates.

        Returns:
            Tokens whose KV is there already; None, with nothing changed, when fewer than
            `keep_available` blocks would remain available.
        """
        assert not table.blocks, "table holds blocks already"
        hits = self._find(table.chain, (num_tokens - 1) // self.block_size)
        fresh = self.blocks_for(num_tokens) - len(hits)
        idle_hits = sum(block.ref_count == 0 for block in hits)
        if self.available_blocks - idle_hits < fresh + keep_available:
            return None
        for block in hits:
            self._hold(table, block)
        for _ in range(fresh):
            self._hold(table, self._take())
        table.committed = len(hits)
        if count:
            self._count(table.chain, num_tokens, len(hits))
        return len(hits) * self.block_size

    def grow(self, table: BlockTable) -> None:
        """Add one block to a table. Raises IndexError when none is available."""
        self._hold(table, self._take())

    def commit(self, table: BlockTable, computed: int) -> None:
        """Publish the full blocks among the first `computed` tokens, whose KV is written."""
        full = computed // self.block_size
        while table.committed < full:
            self._publish(table.chain, table.committed, table.blocks[table.committed])
            table.committed += 1

    def release(self, table: BlockTable, *, discard: bool = False) -> list[int]:
        """Give back every block of a table; a second call does nothing.

        The last block goes first, so that a chain is evicted from its end. `discard` takes
        the blocks out of the map as well: their content is not to be trusted.

        Returns:
            Indices of the blocks that nobody holds any more.
        """
        freed = []
        while table.blocks:
            block = table.blocks.pop()
            table.indices.pop()
            block.ref_count -= 1
            if discard:
                self._unpublish(block)
            if block.ref_count == 0:
                self._park(block)
                freed.append(block.index)
        table.committed = 0
        return freed

    def _find(self, chain: BlockChain, limit: int) -> list[Block]:
        hits: list[Block] = []
        for index in range(limit):
            key = chain.hash_at(index)
            block = self.published.get(key)
            if block is None:
                break
            if self._tokens is not None and self._tokens[key] != tuple(chain.tokens_at(index)):
                raise AssertionError(f"KV block {block.index} holds other tokens than its hash")
            hits.append(block)
        return hits

    def _hold(self, table: BlockTable, block: Block) -> None:
        if block.ref_count == 0:
            if block.prev is not None:
                self.free_list.remove(block)
                self.cached_blocks -= 1
            block.tenant = table.tenant
            self.held_by_tenant[table.tenant] += 1
        block.ref_count += 1
        table.blocks.append(block)
        table.indices.append(block.index)

    def _take(self) -> Block:
        block = self.free_list.pop_first()
        if block.hash is not None:
            self.cached_blocks -= 1
            self.counters.evictions += 1
            self._unpublish(block)
        return block

    def _park(self, block: Block) -> None:
        self.held_by_tenant[block.tenant] -= 1
        if not self.held_by_tenant[block.tenant]:
            del self.held_by_tenant[block.tenant]
        if block.hash is None:
            self.free_list.prepend(block)
        else:
            self.free_list.append(block)
            self.cached_blocks += 1

    def _publish(self, chain: BlockChain, index: int, block: Block) -> None:
        key = chain.hash_at(index)
        # A twin computed at the same time is found already; tables are append-only, so this
        # copy stays and is freed without being cached.
        if key in self.published:
            return
        block.hash = key
        self.published[key] = block
        if self._tokens is not None:
            self._tokens[key] = tuple(chain.tokens_at(index))

    def _unpublish(self, block: Block) -> None:
        if block.hash is None:
            return
        del self.published[block.hash]
        if self._tokens is not None:
            del self._tokens[block.hash]
        block.hash = None

    def _count(self, chain: BlockChain, num_tokens: int, hits: int) -> None:
        size, counters = self.block_size, self.counters
        findable = (num_tokens - 1) // size
        shared = min(findable, chain.tenant_blocks)
        counters.prefix_queries += shared * size
        counters.prefix_hits += min(hits, shared) * size
        if chain.in_session:
            counters.session_queries += (findable - shared) * size
            counters.session_hits += max(0, hits - shared) * size
