from pathlib import Path
from typing import Any

import pytest
import torch

from bench.golden_logprobs import ARCHITECTURES
from tests.default_model import default_model_folder
from tests.tiny_llama import write_tiny_llama
from tests.worker.numerics.support import chunked, forward, made_up_tokens
from weir_core.errors import InvalidField
from weir_worker.attention.gather import GatherAttention
from weir_worker.attention.native import NativeAttention
from weir_worker.engine.config import EngineConfig
from weir_worker.engine.factory import build_engine
from weir_worker.kernels.choice import load_kernels
from weir_worker.kernels.library import Kernels
from weir_worker.kv.host_tier import HostTier
from weir_worker.models.base import ForwardBatch, SequenceSlice
from weir_worker.models.llama import LlamaModel
from weir_worker.models.loader import load_model
from weir_worker.models.self_test import batch_invariance

_LLAMA31 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
_MEMBERS: dict[str, dict[str, Any]] = {
    "llama": {},
    "llama 3.1": {"rope_scaling": _LLAMA31},
    "mistral, window": {"model_type": "mistral", "sliding_window": 40},
    "qwen2, biases": {"model_type": "qwen2"},
    "qwen3, head norms": {"model_type": "qwen3"},
    "gemma 3, both kinds of layers": ARCHITECTURES["gemma3"] | {"sliding_window": 40},
}


@pytest.mark.parametrize("member", _MEMBERS)
def test_agrees_with_torch_and_is_batch_invariant(
    kernels: Kernels, tmp_path: Path, member: str
) -> None:
    folder = write_tiny_llama(tmp_path, overrides=_MEMBERS[member])
    native, plain = load_model(folder, kernels=kernels), load_model(folder)
    assert native.attention_backend == "native"
    assert batch_invariance(native)
    tokens, table = made_up_tokens(150, 320), [3, 1, 4, 0, 5, 9, 2, 6, 8, 7]
    for model in (native, plain):
        model.allocate_kv(10, 16)
    whole = forward(native, [(tokens, 0, 150, table)])
    assert torch.allclose(whole, forward(plain, [(tokens, 0, 150, table)]), atol=1e-3)
    for chunk in (1, 7, 64):
        assert torch.equal(chunked(native, tokens, chunk, table), whole)


def test_another_attention_may_be_chosen(kernels: Kernels, tmp_path: Path) -> None:
    model = load_model(write_tiny_llama(tmp_path), kernels=kernels, attention="tiled")
    assert model.attention_backend == "tiled"
    assert batch_invariance(model)


def test_sizes_that_the_kernels_do_not_know_are_torchs(
    kernels: Kernels, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = write_tiny_llama(tmp_path, overrides={"intermediate_size": 120})
    model = load_model(folder, kernels=kernels)
    assert model.attention_backend == "tiled"
    assert [record.getMessage() for record in caplog.records] == [
        "computing without compiled kernels: intermediate_size is 120, not a multiple of 16"
    ]


def test_kernels_that_are_required_and_cannot_serve_are_refused(tmp_path: Path) -> None:
    folder = write_tiny_llama(tmp_path, overrides={"intermediate_size": 120})
    config = EngineConfig(model=str(folder), device="cpu", num_blocks=8, kernels="required")
    with pytest.raises(InvalidField, match=r"kernels is 'required'.*intermediate_size is 120"):
        build_engine(config)
    with pytest.raises(InvalidField, match=r"kernels is 'required'.*tensor_parallel_size"):
        EngineConfig(model=str(folder), kernels="required", tensor_parallel_size=2)


def test_a_block_size_that_the_kernels_do_not_know_is_refused(
    kernels: Kernels, tmp_path: Path
) -> None:
    model = load_model(write_tiny_llama(tmp_path), kernels=kernels)
    with pytest.raises(InvalidField, match="block_size is 24"):
        model.allocate_kv(4, 24)


@pytest.mark.model
def test_smollm2_draws_the_same_tokens_as_with_torch() -> None:
    native = load_model(default_model_folder(), kernels=load_kernels("auto"))
    plain = load_model(default_model_folder())
    tokens, table = made_up_tokens(70, 40_000), range(5)
    for model in (native, plain):
        model.allocate_kv(5, 16)
    logits = forward(native, [(tokens, 0, 70, table)])
    expected = forward(plain, [(tokens, 0, 70, table)])
    assert torch.allclose(logits, expected, atol=2e-3)
    assert torch.equal(logits.argmax(1), expected.argmax(1))
    assert torch.equal(chunked(native, tokens, 31, table), logits)


def test_blocks_go_to_host_memory_and_come_back(kernels: Kernels, tmp_path: Path) -> None:
    model = load_model(write_tiny_llama(tmp_path), kernels=kernels)
    model.allocate_kv(8, 16 if model.config.head_dim != 16 else 32)
    size = model.kv_cache.block_size
    tokens = made_up_tokens(2 * size + 8, 320)
    whole = forward(model, [(tokens, 0, len(tokens), [0, 1, 2])], rows=[len(tokens) - 1])
    tier = HostTier(model.kv_cache, 4)
    cold = tier.store([0, 1])
    assert cold is not None
    model.clear_kv(range(8))
    tier.restore(cold, 0, [6, 3])
    after = forward(model, [(tokens, 2 * size, 8, [6, 3, 5])], rows=[7])
    assert torch.equal(after, whole)


_DECODED: dict[str, dict[str, Any]] = {
    "llama": {},
    "llama 3.1": {"rope_scaling": _LLAMA31},
    "mistral, window": {"model_type": "mistral", "sliding_window": 40},
    "qwen2, biases": {"model_type": "qwen2"},
}


@pytest.mark.parametrize("member", _DECODED)
def test_one_call_a_step_has_the_bits_of_the_parts(
    kernels: Kernels, tmp_path: Path, member: str
) -> None:
    model = load_model(
        write_tiny_llama(tmp_path, overrides=_DECODED[member]), kernels=kernels, precision="int8"
    )
    assert model._decoder is not None
    assert batch_invariance(model)
    tokens, other = made_up_tokens(150, 320), made_up_tokens(33, 320)[::-1]
    table, second = [3, 1, 4, 0, 5, 9, 2, 6, 8, 7], [10, 12, 11]
    model.allocate_kv(13, 16)
    pieces = [(tokens, 0, 150, table), (other, 0, 33, second)]
    at_once = forward(model, pieces, rows=[0, 149, 150, 182]), _bits(model)
    by_chunks = chunked(model, tokens, 7, table)
    assert torch.equal(by_chunks[[0, 149]], at_once[0][:2])
    model._decoder = None
    model.allocate_kv(13, 16)
    by_parts = forward(model, pieces, rows=[0, 149, 150, 182]), _bits(model)
    assert torch.equal(at_once[0], by_parts[0])
    assert torch.equal(at_once[1], by_parts[1])


def test_one_call_a_step_without_logits_writes_the_cache(kernels: Kernels, tmp_path: Path) -> None:
    model = load_model(write_tiny_llama(tmp_path), kernels=kernels, precision="int8")
    tokens = made_up_tokens(20, 320)
    caches = []
    for rows in ([], [19]):
        model.allocate_kv(2, 16)
        assert len(forward(model, [(tokens, 0, 20, [0, 1])], rows=rows)) == len(rows)
        caches.append(_bits(model))
    assert torch.equal(*caches)


def test_what_the_decoder_cannot_take_is_refused(kernels: Kernels, tmp_path: Path) -> None:
    model = load_model(write_tiny_llama(tmp_path), kernels=kernels, precision="int8")
    model.allocate_kv(4, 16)
    decoder, cache = model._decoder, model.kv_cache
    assert decoder is not None
    assert cache is not None
    pieces = [SequenceSlice(0, 20, [0, 1])]
    plan = NativeAttention(kernels).plan(ForwardBatch([0] * 20, pieces, [19]), cache)
    x, wanted = torch.zeros(20, model.config.hidden_size), torch.tensor([19])
    for bad in (torch.zeros(19, x.shape[1]), x[:, :-1], x.double()):
        with pytest.raises(InvalidField, match="x is"):
            decoder.run(bad, plan, wanted)
    for rows in ([20], [-1], [3, 20]):
        with pytest.raises(InvalidField, match="wanted is"):
            decoder.run(x, plan, torch.tensor(rows))
    far = ForwardBatch([0], [SequenceSlice(model.config.max_context, 1, [0] * 1000)], [0])
    with pytest.raises(InvalidField, match="position is"):
        decoder.run(x[:1], NativeAttention(kernels).plan(far, cache), torch.tensor([0]))
    model.allocate_kv(5, 16)
    with pytest.raises(InvalidField, match="it must be of 5"):
        decoder.run(x, plan, wanted)
    with pytest.raises(InvalidField, match="of attention 'native'"):
        decoder.run(x, GatherAttention().plan(ForwardBatch([0] * 20, pieces, []), cache), wanted)


def _bits(model: LlamaModel) -> torch.Tensor:
    """A copy of all keys and values."""
    return torch.stack([t.flatten() for t in (*model.kv_cache.keys, *model.kv_cache.values)])
