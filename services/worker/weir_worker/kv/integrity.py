"""Recount of every block, for tests and for the idle engine: O(blocks + references)."""

from collections import Counter
from collections.abc import Iterable

from weir_worker.kv.block import Block
from weir_worker.kv.block_pool import BlockPool
from weir_worker.kv.block_table import BlockTable
from weir_worker.kv.manager import KvManager
from weir_worker.kv.share_heap import ShareHeap
from weir_worker.kv.tenant_account import TenantAccount


class IntegrityError(AssertionError):
    """The books of the KV manager do not balance."""


def check_integrity(manager: KvManager, tables: Iterable[BlockTable]) -> None:
    """Recount from scratch; `tables` are all that may hold blocks.

    Raises:
        IntegrityError: free + cached + held != total, or any finer rule is broken.
    """
    pool = manager.pool
    _check_references(pool, tables)
    free = list(pool.free)
    _require(len(free) == len(pool.free), "length of the free list")
    for block in free:
        bare = block.account is None and block.hash is None and not block.granules
        _require(bare and block.idle and not block.pins, f"block {block.index} is not free")
    cached = [block for account in manager.accounts() for block in account.cached]
    held = [block for block in pool.blocks if block.ref_count or block.pins]
    everywhere = Counter(block.index for block in (*free, *cached, *held))
    _require(max(everywhere.values()) == 1, "a block is in two places")
    _require(len(everywhere) == manager.total_blocks, "free + cached + held != total")
    _require(len(cached) == pool.cached, "count of cached blocks")
    _require(len(held) == manager.held_blocks, "count of held blocks")
    _check_published(pool)
    for account in manager.accounts():
        _check_account(pool, account)
    _require(sum(account.pinned for account in manager.accounts()) == pool.pinned, "pinned")
    for heap, entitled in (
        (pool.evictable, [a for a in manager.accounts() if len(a.cached)]),
        (pool.yielding, [a for a in manager.accounts() if a.sessions]),
    ):
        _check_heap(heap, entitled)
    _check_host(manager)


def _check_host(manager: KvManager) -> None:
    accounts = list(manager.accounts())
    kept = [session for account in accounts for session in account.cold.values()]
    places = [slot for session in kept if session.cold is not None for slot in session.cold.slots]
    _require(len(places) == len(set(places)), "a place in the host's memory is taken twice")
    _require(len(places) == manager.host_blocks, "count of places taken in the host's memory")
    for session in kept:
        whole = session.cold is not None and not session.blocks and not session.dropped
        _require(whole, f"a cold session of tenant {session.account.tenant}")
    for account in accounts:
        mine = sum(len(s.cold.slots) for s in account.cold.values() if s.cold is not None)
        _require(mine == account.host_blocks, f"blocks in the host of {account.tenant}")
        _require(not account.cold.keys() & account.sessions.keys(), "a session is kept twice")
    if manager.sessions.cold is not None:
        _check_heap(manager.sessions.cold.accounts, [a for a in accounts if a.cold])


def _check_references(pool: BlockPool, tables: Iterable[BlockTable]) -> None:
    references: Counter[int] = Counter()
    for table in tables:
        references.update(block.index for block in table.blocks)
        _require(table.indices == [block.index for block in table.blocks], "a table's indices")
        foreign = [block for block in table.blocks if block.account is not table.account]
        _require(not foreign, "a table holds a block of another tenant")
    pins = Counter(
        block.index
        for account in pool.accounts.values()
        for session in account.sessions.values()
        for block in session.blocks
    )
    for block in pool.blocks:
        _require(block.ref_count == references[block.index], f"references of block {block.index}")
        _require(block.pins == pins[block.index], f"pins of block {block.index}")


def _check_published(pool: BlockPool) -> None:
    granules: set[bytes] = set()
    for block in pool.blocks:
        found = block.hash is None or pool.published.get(block.hash) is block
        _require(found, f"block {block.index} has a hash and cannot be found")
        granules.update(block.granules)
    hashed = sum(block.hash is not None for block in pool.blocks)
    _require(hashed == len(pool.published), "the map holds a block that is not published")
    _require(len(granules) == len(pool.events), "count of findable granules")
    _require(all(granule in pool.events for granule in granules), "a granule is not told")


def _check_account(pool: BlockPool, account: TenantAccount) -> None:
    name = f"of tenant {account.tenant}"
    mine = [block for block in pool.blocks if block.account is account]
    running = [block for block in mine if block.ref_count]
    pinned = [block for block in mine if block.pins and block.idle]
    _require(len(running) == account.running, f"running blocks {name}")
    _require(len(pinned) == account.pinned, f"pinned blocks {name}")
    _require(len(mine) == account.footprint, f"footprint {name}")
    cached = list(account.cached)
    _require(all(_is_cached(block, account) for block in cached), f"cached blocks {name}")
    ages = [block.parked_us for block in cached]
    _require(ages == sorted(ages), f"order of the cached blocks {name}")
    for session in account.sessions.values():
        owned = all(block.account is account for block in session.blocks)
        _require(owned and not session.dropped, f"a session {name}")


def _is_cached(block: Block, account: TenantAccount) -> bool:
    unheld = block.idle and not block.pins
    return unheld and block.hash is not None and block.account is account


def _check_heap(heap: ShareHeap, entitled: list[TenantAccount]) -> None:
    order = list(heap)
    _require(len(order) == len(entitled), "accounts in a heap of shares")
    _require(all(account in heap for account in entitled), "an account is not in its heap")
    for place, account in enumerate(order[1:], start=1):
        _require(not heap.is_over(account, order[(place - 1) // 2]), "order of a heap of shares")


def _require(condition: bool, what: str) -> None:
    if not condition:
        raise IntegrityError(f"KV integrity: {what}")
