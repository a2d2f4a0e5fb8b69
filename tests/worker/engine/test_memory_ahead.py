"""KV blocks have memory before a sequence writes to them."""

import mmap
import sys
from pathlib import Path

import pytest
import torch

from tests.tiny_llama import write_tiny_llama
from tests.worker.engine.driver import submission
from weir_worker.attention import PagedKvCache
from weir_worker.engine.config import EngineConfig
from weir_worker.engine.factory import build_engine
from weir_worker.engine.memory_ahead import MemoryAhead
from weir_worker.kv.block_pool import BlockPool
from weir_worker.kv.counters import CacheCounters

linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def pool_of(blocks: int) -> BlockPool:
    return BlockPool(blocks, 0, CacheCounters(), verify_tokens=False)


def test_blocks_are_touched_in_the_order_of_their_first_use() -> None:
    pool = pool_of(2_000)
    touched: list[int] = []
    ahead = MemoryAhead(pool, lambda first, count: touched.extend(range(first, first + count)))
    assert touched == list(range(512)), "before the first request"
    account = pool.account("acme")
    taken = [pool.take(account) for _ in range(40)]
    assert [block.index for block in taken] == touched[:40]
    for block in taken:
        pool.dereference(block)
    assert pool.take(account).index < 40, "who has been there comes first"
    for _ in range(3):
        ahead.idle()
    assert touched == list(range(552))
    for _ in range(900):
        pool.take(account)
    ahead.idle()
    assert touched[552:] == list(range(901, 933)), "what was written has its memory"


def test_no_more_than_there_are() -> None:
    touched: list[tuple[int, int]] = []
    ahead = MemoryAhead(pool_of(9), lambda first, count: touched.append((first, count)))
    ahead.idle()
    assert touched == [(0, 9)]


def resident(address: int, length: int) -> int:
    """Pages of a mapped range that have memory, by /proc/self/pagemap."""
    first, last = address // mmap.PAGESIZE, (address + length - 1) // mmap.PAGESIZE
    with Path("/proc/self/pagemap").open("rb") as pagemap:
        pagemap.seek(8 * first)
        entries = pagemap.read(8 * (last + 1 - first))
    return sum(entries[at + 7] >> 7 for at in range(0, len(entries), 8))


@linux
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_memory_is_made_and_what_is_there_stays(dtype: torch.dtype) -> None:
    cache = PagedKvCache(
        num_layers=2, num_blocks=64, block_size=16, num_kv_heads=2, head_dim=64, dtype=dtype
    )
    part = cache.values[1]
    block = part.stride(0) * part.element_size()
    part[20] = 7
    cache.touch(16, 16)
    assert (part[20] == 7).all()
    assert not part[16:20].any()
    assert resident(part.data_ptr() + 16 * block, 16 * block) == 16 * block // mmap.PAGESIZE
    assert resident(part.data_ptr() + 40 * block, 8 * block) == 0


@linux
def test_an_engine_starts_with_its_first_blocks_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    touched: list[int] = []
    real = PagedKvCache.touch

    def touch(self: PagedKvCache, first: int, count: int) -> None:
        touched.extend(range(first, first + count))
        real(self, first, count)

    monkeypatch.setattr(PagedKvCache, "touch", touch)
    folder = str(write_tiny_llama(tmp_path / "tiny"))
    engine = build_engine(EngineConfig(model=folder, device="cpu", num_blocks=600)).engine
    assert touched == list(range(512))
    engine.apply(submission("r", [5] * 40, 2))
    while engine.has_work():
        engine.step()
    engine.heartbeat()
    assert touched == list(range(515))
