"""Recount of every block, for tests and for the idle engine: O(blocks + references)."""

from collections import Counter
from collections.abc import Iterable

from weir_worker.kv.block_table import BlockTable
from weir_worker.kv.manager import KvManager


class IntegrityError(AssertionError):
    """The books of the KV manager do not balance."""


def check_integrity(manager: KvManager, tables: Iterable[BlockTable]) -> None:
    """Recount from scratch; `tables` are all that may hold blocks.

    Raises:
        IntegrityError: free + cached + held != total, or any finer rule is broken.
    """
    references = Counter(block.index for table in tables for block in table.blocks)
    listed = list(manager.free_list)
    cached = sum(block.hash is not None for block in listed)
    held = [block for block in manager.blocks if block.ref_count > 0]
    _require(len(listed) == len(manager.free_list), "length of the free list")
    _require(len({block.index for block in listed}) == len(listed), "a block is listed twice")
    _require(all(block.ref_count == 0 for block in listed), "a held block is in the free list")
    _require(len(listed) + len(held) == manager.total_blocks, "free + cached + held != total")
    _require(cached == manager.cached_blocks, "count of cached blocks")
    for block in manager.blocks:
        _require(block.ref_count == references[block.index], f"references of block {block.index}")
        found = block.hash is None or manager.published.get(block.hash) is block
        _require(found, f"block {block.index} has a hash and cannot be found")
    hashed = sum(block.hash is not None for block in manager.blocks)
    _require(hashed == len(manager.published), "the map holds a block that is not published")
    _require(Counter(b.tenant for b in held) == manager.held_by_tenant, "blocks held by tenant")


def _require(condition: bool, what: str) -> None:
    if not condition:
        raise IntegrityError(f"KV integrity: {what}")
