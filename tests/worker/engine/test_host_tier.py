"""KV that goes to the host and comes back; on CPU tensors, where it is the same memory."""

from pathlib import Path

import pytest
import torch

from tests.tiny_llama import write_tiny_llama
from tests.worker.numerics.support import forward, made_up_tokens
from weir_core.errors import InvalidField
from weir_worker.attention import PagedKvCache
from weir_worker.engine.config import EngineConfig
from weir_worker.engine.factory import build_engine
from weir_worker.kv.host_tier import HostTier
from weir_worker.models.loader import load_model


@pytest.fixture
def cache() -> PagedKvCache:
    cache = PagedKvCache(num_layers=3, num_blocks=60, block_size=4, num_kv_heads=2, head_dim=8)
    for tensor in (*cache.keys, *cache.values):
        tensor.normal_()
    return cache


def contents(cache: PagedKvCache, blocks: list[int]) -> torch.Tensor:
    return torch.stack([part[blocks] for part in (*cache.keys, *cache.values)])


def test_blocks_come_back_into_other_blocks(cache: PagedKvCache) -> None:
    tier = HostTier(cache, 50)
    blocks = list(range(39, 0, -1))
    before = contents(cache, blocks)
    cold = tier.store(blocks)
    assert cold is not None
    assert tier.free_blocks == 11
    cache.clear(range(60))
    elsewhere = list(range(10, 49))
    tier.restore(cold, 0, elsewhere)
    assert torch.equal(contents(cache, elsewhere), before)
    rest = [block for block in range(60) if block not in elsewhere]
    assert not contents(cache, rest).any()


def test_what_does_not_fit_changes_nothing(cache: PagedKvCache) -> None:
    tier = HostTier(cache, 3)
    kept = tier.store([1, 2])
    assert kept is not None
    before = contents(cache, [1, 2])
    assert tier.store([3, 4]) is None
    assert tier.free_blocks == 1
    tier.restore(kept, 0, [8, 9])
    assert torch.equal(contents(cache, [8, 9]), before)


def test_a_place_given_back_serves_the_next_and_not_the_last(cache: PagedKvCache) -> None:
    tier = HostTier(cache, 2)
    first = tier.store([0, 1])
    assert first is not None
    tier.drop(first)
    tier.drop(first)
    assert tier.free_blocks == 2
    second = tier.store([5, 6])
    assert second is not None
    with pytest.raises(ValueError, match="0 blocks are in the tier, not 2"):
        tier.restore(first, 0, [0, 1])
    expected = contents(cache, [5, 6])
    tier.restore(second, 0, [7, 8])
    assert torch.equal(contents(cache, [7, 8]), expected)


def test_memory_is_what_the_blocks_take(cache: PagedKvCache) -> None:
    assert HostTier(cache, 2).block_bytes == 3 * 2 * 4 * 2 * 8 * 4
    with pytest.raises(InvalidField, match="num_blocks is 0"):
        HostTier(cache, 0)


def test_a_conversation_goes_on_from_the_tier(tmp_path_factory: pytest.TempPathFactory) -> None:
    model = load_model(write_tiny_llama(tmp_path_factory.mktemp("tiny")))
    model.allocate_kv(8, 16)
    tokens = made_up_tokens(40, 320)
    whole = forward(model, [(tokens, 0, 40, [0, 1, 2])], rows=[39])
    tier = HostTier(model.kv_cache, 4)
    cold = tier.store([0, 1])
    assert cold is not None
    model.clear_kv(range(8))
    tier.restore(cold, 0, [6, 3])
    after = forward(model, [(tokens, 32, 8, [6, 3, 5])], rows=[7])
    assert torch.allclose(after, whole, atol=1e-5)


def test_memory_is_cut_into_whole_blocks(cache: PagedKvCache) -> None:
    block = HostTier(cache, 1).block_bytes
    assert HostTier.within(cache, 3 * block - 1).total_blocks == 2
    with pytest.raises(InvalidField, match=f"kv_host_memory_bytes is {block - 1}.*{block}"):
        HostTier.within(cache, block - 1)


def test_where_it_makes_no_sense_the_setting_is_refused(tmp_path: Path) -> None:
    folder = str(write_tiny_llama(tmp_path / "tiny"))
    with pytest.raises(InvalidField, match=r"kv_host_memory_bytes is 4096.*raise kv_memory_bytes"):
        build_engine(EngineConfig(model=folder, device="cpu", kv_host_memory_bytes=4096))
    with pytest.raises(InvalidField, match=r"kv_host_memory_bytes is 4096.*tensor_parallel_size"):
        EngineConfig(model="null", kv_host_memory_bytes=4096, tensor_parallel_size=2)
    with pytest.raises(InvalidField, match="kv_host_memory_bytes is -1"):
        EngineConfig(model="null", kv_host_memory_bytes=-1)
