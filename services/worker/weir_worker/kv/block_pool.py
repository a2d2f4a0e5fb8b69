"""All blocks of the cache: where each is, and which is given up next.

Mechanics after vLLM's block pool (SOSP 2023 and its v1 core): reference counts, a hash map
over full blocks, lazy eviction; the order of eviction is by tenant, then by last use.
"""

import heapq
import itertools

from weir_worker.kv.block import Block
from weir_worker.kv.block_chain import BlockChain
from weir_worker.kv.block_list import BlockList
from weir_worker.kv.counters import CacheCounters
from weir_worker.kv.prefix_events import PrefixEvents
from weir_worker.kv.share_heap import ShareHeap
from weir_worker.kv.tenant_account import TenantAccount


class BlockPool:
    """Moves blocks between their states; each move is O(1) or O(log tenants).

    Args:
        num_blocks: usable blocks.
        ttl_us: age at which a cached block is given up; 0: none.
        counters: of the cache.
        verify_tokens: keep and compare the tokens of every published block (debugging).

    Attributes:
        accounts: tenants with blocks, sessions or open tables.
        free: blocks without content; those that were never taken are last, by index.
        ever_taken: leading blocks of which each was taken once.
        published: findable blocks by hash.
        cached, pinned: how many blocks are in that state.
        evictable: tenants with cached blocks.
        yielding: tenants with sessions.
        events: of prefixes.
    """

    def __init__(
        self, num_blocks: int, ttl_us: int, counters: CacheCounters, *, verify_tokens: bool
    ) -> None:
        self.blocks = tuple(Block(index) for index in range(num_blocks))
        self.accounts: dict[str, TenantAccount] = {}
        self.free = BlockList(self.blocks)
        self.ever_taken = 0
        self.published: dict[bytes, Block] = {}
        self.cached = 0
        self.pinned = 0
        self.evictable = ShareHeap()
        self.yielding = ShareHeap()
        self.events = PrefixEvents()
        self.tokens: dict[bytes, tuple[int, ...]] | None = {} if verify_tokens else None
        self._counters = counters
        self._ttl_us = ttl_us
        self._now_us = 0
        self._serial = itertools.count()
        # One entry for each tenant with cached blocks, no later than its oldest block.
        self._expiry: list[tuple[int, int, TenantAccount]] = []

    def account(self, tenant: str) -> TenantAccount:
        """The tenant's account, made if there is none."""
        account = self.accounts.get(tenant)
        if account is None:
            account = self.accounts[tenant] = TenantAccount(tenant)
        return account

    def set_weight(self, account: TenantAccount, weight: int) -> None:
        """Change a tenant's soft share."""
        if account.weight != weight:
            account.weight = weight
            self._reorder(account)

    def forget(self, account: TenantAccount) -> None:
        """Drop an account that nothing refers to any more."""
        if not account.in_use and self._is_known(account):
            del self.accounts[account.tenant]

    def advance(self, now_us: int) -> None:
        """Set the time (monotonic) and give up cached blocks that are too old."""
        self._now_us = now_us
        expiry, due = self._expiry, now_us - self._ttl_us
        while self._ttl_us and expiry and expiry[0][0] <= due:
            _, _, account = heapq.heappop(expiry)
            account.watched = False
            while (oldest := account.cached.first()) and oldest.parked_us <= due:
                self.free.append(self._evict(account))
            if oldest is not None:
                self._watch(account, oldest)

    def take(self, account: TenantAccount) -> Block:
        """A block without content, now the tenant's and running.

        Free blocks first, then the longest unused cached block of the tenant most over its
        share. Raises IndexError when there is neither.
        """
        loser = None if len(self.free) else self.evictable.top()
        block = self.free.pop_first() if loser is None else self._evict(loser)
        if block.index >= self.ever_taken:
            self.ever_taken = block.index + 1
        block.account = account
        block.ref_count = 1
        account.running += 1
        self._reorder(account)
        return block

    def reference(self, block: Block) -> None:
        """A sequence holds a block that has content."""
        if block.ref_count == 0:
            account = self._owner(block)
            if block.pins:
                account.pinned -= 1
                self.pinned -= 1
            else:
                self._leave_cache(account, block)
            account.running += 1
        block.ref_count += 1

    def dereference(self, block: Block) -> bool:
        """A sequence lets go of a block; returns whether nobody holds it any more."""
        block.ref_count -= 1
        if block.ref_count:
            return False
        account = self._owner(block)
        account.running -= 1
        if block.pins:
            account.pinned += 1
            self.pinned += 1
            return False
        self._park(account, block)
        return True

    def pin(self, block: Block) -> None:
        """A session keeps a block that a sequence holds."""
        assert block.ref_count, "only a running block can be pinned"
        block.pins += 1

    def unpin(self, block: Block) -> None:
        """A session lets go of a block."""
        block.pins -= 1
        if block.pins or block.ref_count:
            return
        account = self._owner(block)
        account.pinned -= 1
        self.pinned -= 1
        self._park(account, block)

    def find(self, chain: BlockChain, index: int) -> Block | None:
        """The block with the tokens of a chain's block `index`, if it can be found."""
        key = chain.hash_at(index)
        block = self.published.get(key)
        if block is not None and self.tokens is not None:
            assert self.tokens[key] == tuple(chain.tokens_at(index)), (
                f"KV block {block.index} holds other tokens than its hash"
            )
        return block

    def publish(self, block: Block, chain: BlockChain, index: int) -> None:
        """Make block `index` of a chain findable, unless an equal one is."""
        key = chain.hash_at(index)
        # A twin computed at the same time is found already; tables are append-only, so this
        # copy stays and is freed without being cached.
        if key in self.published:
            return
        block.hash = key
        block.granules = chain.granules_of(index)
        self.published[key] = block
        self.events.publish(block.granules)
        if self.tokens is not None:
            self.tokens[key] = tuple(chain.tokens_at(index))

    def unpublish(self, block: Block) -> None:
        """Let nobody find a block any more; nothing happens when nobody can."""
        if block.hash is None:
            return
        del self.published[block.hash]
        if self.tokens is not None:
            del self.tokens[block.hash]
        self.events.unpublish(block.granules)
        block.hash = None
        block.granules = ()

    def refresh(self, block: Block) -> None:
        """Count a cached block as just used."""
        account = block.account
        if account is not None and block.hash and not block.ref_count and not block.pins:
            account.cached.remove(block)
            account.cached.append(block)
            block.parked_us = self._now_us

    def _owner(self, block: Block) -> TenantAccount:
        assert block.account is not None, "the block is free"
        return block.account

    def _park(self, account: TenantAccount, block: Block) -> None:
        if block.hash is None:
            block.account = None
            self.free.prepend(block)
            self._reorder(account)
            self.forget(account)
            return
        block.parked_us = self._now_us
        account.cached.append(block)
        self.cached += 1
        self.evictable.add(account)
        if self._ttl_us and not account.watched:
            self._watch(account, block)

    def _leave_cache(self, account: TenantAccount, block: Block) -> None:
        account.cached.remove(block)
        self.cached -= 1
        if not len(account.cached):
            self.evictable.discard(account)

    def _evict(self, account: TenantAccount) -> Block:
        block = account.cached.first()
        assert block is not None
        self._leave_cache(account, block)
        self.unpublish(block)
        block.account = None
        self._counters.evictions += 1
        self._reorder(account)
        self.forget(account)
        return block

    def _reorder(self, account: TenantAccount) -> None:
        self.evictable.update(account)
        self.yielding.update(account)

    def _watch(self, account: TenantAccount, oldest: Block) -> None:
        account.watched = True
        heapq.heappush(self._expiry, (oldest.parked_us, next(self._serial), account))
        if len(self._expiry) > 64 + 2 * len(self.accounts):
            # Accounts that were dropped since: who comes by takes no memory for as long as that.
            self._expiry[:] = [entry for entry in self._expiry if self._is_known(entry[2])]
            heapq.heapify(self._expiry)

    def _is_known(self, account: TenantAccount) -> bool:
        return self.accounts.get(account.tenant) is account
