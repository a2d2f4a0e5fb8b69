"""Allocation of KV blocks to sequences, with sharing of equal prefixes."""

from collections.abc import Iterable, Iterator

from weir_core.prefix_hash import PREFIX_GRANULARITY
from weir_worker.kv.block import Block
from weir_worker.kv.block_chain import BlockChain, PrefixScopes
from weir_worker.kv.block_pool import BlockPool
from weir_worker.kv.block_table import BlockTable
from weir_worker.kv.cold_sessions import KvStore
from weir_worker.kv.counters import CacheCounters
from weir_worker.kv.kv_policy import KvPolicy
from weir_worker.kv.prefix_events import PrefixEvents
from weir_worker.kv.prefix_search import PrefixHit, find_prefix
from weir_worker.kv.session import Session
from weir_worker.kv.session_store import SessionStore
from weir_worker.kv.shortage import Shortage
from weir_worker.kv.tenant_account import TenantAccount

_ANYBODY = KvPolicy()


class KvManager:
    """Owner of all blocks: each one is free, cached (findable, unreferenced) or held.

    Held blocks are those of sequences, and those that sessions pin. A block for a sequence is
    taken from the free ones, then from the cached ones of the tenant most over its share, then
    from the pins of the session longest unused of such a tenant, whose KV goes to `host`, if
    there is such a store, and comes back with its next turn. Single-threaded. A method
    either does all of what it says or nothing.

    Args:
        num_blocks: usable blocks, at least 1.
        block_size: tokens of a block.
        cache_ttl_us: age at which a cached block is given up; 0: none.
        verify_tokens: keep and compare the tokens of every published block (debugging).
        granularity: tokens by which prefixes are named to others.
        host: for KV of sessions that had to leave the cache.
    """

    def __init__(
        self,
        num_blocks: int,
        block_size: int,
        *,
        cache_ttl_us: int = 0,
        verify_tokens: bool = False,
        granularity: int = PREFIX_GRANULARITY,
        host: KvStore | None = None,
    ) -> None:
        self._granularity = granularity
        self.block_size = block_size
        self.counters = CacheCounters()
        self.pool = BlockPool(num_blocks, cache_ttl_us, self.counters, verify_tokens=verify_tokens)
        self.sessions = SessionStore(self.pool, host)

    @property
    def total_blocks(self) -> int:
        """All blocks."""
        return len(self.pool.blocks)

    @property
    def free_blocks(self) -> int:
        """Blocks without content."""
        return len(self.pool.free)

    @property
    def cached_blocks(self) -> int:
        """Findable blocks that nobody holds."""
        return self.pool.cached

    @property
    def pinned_blocks(self) -> int:
        """Held blocks that sessions alone hold."""
        return self.pool.pinned

    @property
    def held_blocks(self) -> int:
        """Blocks that a sequence or a session holds."""
        return self.total_blocks - self.free_blocks - self.cached_blocks

    @property
    def host_blocks(self) -> int:
        """Blocks of sessions in the memory of the host."""
        return 0 if self.sessions.cold is None else self.sessions.cold.blocks

    @property
    def available_blocks(self) -> int:
        """Blocks that a sequence can have now: free, cached and pinned ones."""
        return self.free_blocks + self.cached_blocks + self.pinned_blocks

    @property
    def events(self) -> PrefixEvents:
        """Prefixes that became findable, and that no longer are."""
        return self.pool.events

    def accounts(self) -> Iterable[TenantAccount]:
        """Of every tenant that has anything here."""
        return self.pool.accounts.values()

    def advance(self, now_us: int) -> None:
        """Set the time (monotonic) and give up what has come of age."""
        self.pool.advance(now_us)
        self.sessions.advance(now_us)

    def blocks_for(self, num_tokens: int) -> int:
        """Blocks that cover `num_tokens`."""
        return -(-num_tokens // self.block_size)

    def open_table(
        self, tenant: str, token_ids: list[int], scopes: PrefixScopes, policy: KvPolicy = _ANYBODY
    ) -> BlockTable:
        """Make an empty table over a sequence's (growing) list of tokens; `close` ends it."""
        account = self.pool.account(tenant)
        account.tables += 1
        self.pool.set_weight(account, policy.weight)
        self.sessions.reorder(account)
        chain = BlockChain(token_ids, self.block_size, scopes, self._granularity)
        return BlockTable(account, chain, self.blocks_for(policy.max_tokens))

    def allocate(
        self,
        table: BlockTable,
        num_tokens: int,
        *,
        keep_available: int = 0,
        most_hit: int | None = None,
        count: bool = True,
    ) -> int | Shortage:
        """Look up the longest cached prefix and take blocks for all of `num_tokens`.

        At most `num_tokens - 1` tokens are hit, since the last one must be computed for its
        logits, and at most `most_hit`. With `count` the look-up enters the hit rates.

        Returns:
            Tokens whose KV is there already; or, with nothing changed, what is lacking: the
            tenant's quota, or memory, when fewer than `keep_available` blocks would remain.
        """
        assert not table.blocks, "table holds blocks already"
        end = num_tokens if most_hit is None else min(num_tokens, most_hit + 1)
        session = self._session(table)
        hit = find_prefix(self.pool, table.chain, end, session)
        fresh = self.blocks_for(num_tokens) - len(hit.blocks)
        idle_hits = sum(block.idle for block in hit.blocks)
        if table.exceeds_quota(idle_hits + fresh):
            return Shortage.QUOTA
        if self.available_blocks - idle_hits < fresh + keep_available:
            return Shortage.MEMORY
        self._take_hit(table, hit)
        self._add_fresh(table, fresh)
        tokens = max(hit.tokens, self._restore(table, session, end - 1))
        if count:
            self._count(table.chain, num_tokens, tokens)
        return tokens

    def grow(self, table: BlockTable) -> None:
        """Add one block to a table. Raises IndexError when none is available."""
        self._add_fresh(table, 1)

    def commit(self, table: BlockTable, computed: int) -> None:
        """Publish the full blocks among the first `computed` tokens, whose KV is written."""
        full = computed // self.block_size
        while table.committed < full:
            block = table.blocks[table.committed]
            self.pool.publish(block, table.chain, table.committed)
            table.committed += 1

    def release(self, table: BlockTable, *, discard: bool = False) -> list[int]:
        """Give back every block of a table; a second call does nothing.

        The last block goes first, so that a chain is evicted from its end. `discard`: the
        content is not to be trusted; its blocks go out of the map and its session is given up.

        Returns:
            Indices of the blocks that nobody holds any more.
        """
        if discard and table.blocks and table.chain.session:
            self.sessions.release(table.account, table.chain.session)
        freed = []
        for index in reversed(range(len(table.blocks))):
            block = table.blocks[index]
            if discard:
                self.pool.unpublish(block)
            elif block.hash is None and index < table.committed:
                self._refresh_twin(table.chain, index)
            if self.pool.dereference(block):
                freed.append(block.index)
        table.blocks.clear()
        table.indices.clear()
        table.committed = 0
        return freed

    def close(self, table: BlockTable, *, discard: bool = False) -> list[int]:
        """Release a table for good; twice is once."""
        freed = self.release(table, discard=discard)
        if not table.closed:
            table.closed = True
            table.account.tables -= 1
            self.pool.forget(table.account)
        return freed

    def keep_turn(self, table: BlockTable, computed: int, ttl_us: int) -> None:
        """Keep a turn that ended well: its first `computed` tokens, for the session's next.

        The session's turn before is let go. Call it before `close`.
        """
        session = table.chain.session
        assert session, "the sequence is of no session"
        blocks = table.blocks[: self.blocks_for(computed)]
        token_ids = table.chain.token_ids[:computed]
        self.sessions.commit(table.account, session, token_ids, blocks, ttl_us)

    def release_session(self, tenant: str, session: str) -> bool:
        """Give up what is kept of a session; False when nothing is."""
        account = self.pool.accounts.get(tenant)
        return account is not None and self.sessions.release(account, session)

    def stranded_tokens(self) -> int:
        """Places in pinned blocks that no token fills; O(sessions)."""
        return sum(
            len(session.blocks) * self.block_size - len(session.token_ids)
            for session in self._idle_sessions()
        )

    def _idle_sessions(self) -> Iterator[Session]:
        for account in self.pool.yielding:
            for session in account.sessions.values():
                if session.blocks and session.blocks[-1].idle:
                    yield session

    def _session(self, table: BlockTable) -> Session | None:
        session = table.chain.session
        return self.sessions.find(table.account, session) if session else None

    def _take_hit(self, table: BlockTable, hit: PrefixHit) -> None:
        if hit.tail is not None:
            # Its content is about to change.
            self.pool.unpublish(hit.tail)
        for block in hit.blocks:
            self.pool.reference(block)
            self._append(table, block)
        table.committed = hit.tokens // self.block_size

    def _restore(self, table: BlockTable, session: Session | None, most: int) -> int:
        """Copy what a table lacks of a cold session into its blocks, which nobody else has.

        Returns:
            Tokens whose KV is there then, at most `most`; 0 where nothing was copied. The
            session may have been given up for the very blocks of the table.
        """
        cold = self.sessions.cold
        if cold is None or session is None or session.cold is None:
            return 0
        tokens = min(session.common(table.chain.token_ids, self.block_size), most)
        first = table.committed
        blocks = table.indices[first : self.blocks_for(tokens)]
        if not blocks:
            return 0
        cold.restore(session, first, blocks)
        self.counters.restored += tokens - first * self.block_size
        return tokens

    def _add_fresh(self, table: BlockTable, count: int) -> None:
        """Take blocks for a sequence; pins yield: the tenant's own at its quota, then anyone's."""
        account, pool = table.account, self.pool
        while table.quota and account.held + count > table.quota:
            if not self.sessions.unpin_oldest(account):
                break
        while len(pool.free) + pool.cached < count and self.sessions.yield_one():
            pass
        for _ in range(count):
            self._append(table, pool.take(account))

    def _append(self, table: BlockTable, block: Block) -> None:
        table.blocks.append(block)
        table.indices.append(block.index)

    def _refresh_twin(self, chain: BlockChain, index: int) -> None:
        """The findable copy of a block was in use too: it must outlive the blocks behind it."""
        twin = self.pool.find(chain, index)
        if twin is not None:
            self.pool.refresh(twin)

    def _count(self, chain: BlockChain, num_tokens: int, hit: int) -> None:
        size, counters = self.block_size, self.counters
        findable = (num_tokens - 1) // size
        shared = min(findable, chain.tenant_blocks) * size
        counters.prefix_queries += shared
        counters.prefix_hits += min(hit, shared)
        if chain.session and chain.tenant_blocks <= findable:
            counters.session_queries += num_tokens - 1 - shared
            counters.session_hits += max(0, hit - shared)
