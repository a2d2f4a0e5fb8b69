"""Logits are equal bit for bit whole, chunked, alone, batched and over reused blocks."""

from pathlib import Path
from typing import Any

import pytest
import torch

from bench.golden_logprobs import ARCHITECTURES
from tests.default_model import default_model_folder
from tests.tiny_llama import write_tiny_llama
from tests.worker.numerics.support import chunked, forward, made_up_tokens
from weir_worker.models.base import ForwardBatch
from weir_worker.models.llama import LlamaModel
from weir_worker.models.loader import load_model
from weir_worker.models.self_test import batch_invariance

_MODELS: dict[str, dict[str, Any]] = {
    "llama": {},
    "gemma3": ARCHITECTURES["gemma3"] | {"num_hidden_layers": 2},
}


@pytest.fixture(scope="module", params=_MODELS)
def tiny(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> LlamaModel:
    overrides = _MODELS[request.param]
    return load_model(write_tiny_llama(tmp_path_factory.mktemp("tiny"), overrides=overrides))


@pytest.mark.parametrize("block_size", [8, 16, 64])
@pytest.mark.parametrize("chunk", [1, 3, 16, 50, 64])
def test_chunks_change_no_bit(tiny: LlamaModel, chunk: int, block_size: int) -> None:
    tokens, table = made_up_tokens(201, 320), range(201 // block_size + 1)
    tiny.allocate_kv(len(table), block_size)
    whole = forward(tiny, [(tokens, 0, 201, table)])
    assert torch.equal(chunked(tiny, tokens, chunk, table), whole)


def test_batch_mates_change_no_bit(tiny: LlamaModel) -> None:
    tiny.allocate_kv(400, 16)
    sequences = [made_up_tokens(9 * index + 1, 320, index) for index in range(16)]
    tables = [range(20 * index, 20 * index + 20) for index in range(16)]
    alone = [
        forward(tiny, [(tokens, 0, len(tokens), table)])
        for tokens, table in zip(sequences, tables, strict=True)
    ]
    pieces = [(t, 0, len(t), table) for t, table in zip(sequences, tables, strict=True)]
    assert torch.equal(forward(tiny, pieces), torch.cat(alone))
    decodes = [(t, len(t) - 1, 1, table) for t, table in zip(sequences, tables, strict=True)]
    assert torch.equal(forward(tiny, decodes), torch.stack([rows[-1] for rows in alone]))
    mixed = [pieces[15], *decodes[:7], pieces[3], *decodes[7:12]]
    rows = [*range(136), *range(136, 143), *range(143, 171), *range(171, 176)]
    expected = [
        alone[15],
        *(logits[-1:] for logits in alone[:7]),
        alone[3],
        *(logits[-1:] for logits in alone[7:12]),
    ]
    assert torch.equal(forward(tiny, mixed, rows), torch.cat(expected))


def test_logits_of_chosen_rows_only(tiny: LlamaModel) -> None:
    tokens, table = made_up_tokens(100, 320), range(7)
    tiny.allocate_kv(7, 16)
    whole = forward(tiny, [(tokens, 0, 100, table)])
    assert torch.equal(forward(tiny, [(tokens, 0, 100, table)], [0, 63, 99]), whole[[0, 63, 99]])
    empty = forward(tiny, [(tokens, 0, 100, table)], [])
    assert empty.shape == (0, 320)
    assert torch.equal(forward(tiny, [(tokens, 99, 1, table)]), whole[99:])


def test_a_pass_without_logits_still_fills_the_cache(tiny: LlamaModel) -> None:
    tokens, table = made_up_tokens(80, 320), [4, 2, 0, 1, 3]
    tiny.allocate_kv(5, 16)
    whole = forward(tiny, [(tokens, 0, 80, table)], [79])
    tiny.allocate_kv(5, 16)
    forward(tiny, [(tokens, 0, 79, table)], [])
    assert torch.equal(forward(tiny, [(tokens, 79, 1, table)]), whole)


def test_blocks_left_by_others_change_no_bit(tiny: LlamaModel) -> None:
    tokens, others = made_up_tokens(90, 320), made_up_tokens(96, 320, 1)
    tiny.allocate_kv(6, 16)
    clean = forward(tiny, [(tokens, 0, 90, range(6))])
    forward(tiny, [(others, 0, 96, range(6))])
    assert torch.equal(forward(tiny, [(tokens, 0, 90, [5, 3, 1, 0, 2, 4])]), clean)


def test_forward_needs_a_cache(tmp_path: Path) -> None:
    model = load_model(write_tiny_llama(tmp_path))
    with pytest.raises(RuntimeError, match="before allocate_kv"):
        model.forward(ForwardBatch([1], [], [0]))


def test_the_self_test_passes_here_and_notices_a_dependent_row(
    tiny: LlamaModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert batch_invariance(tiny)
    honest = LlamaModel.forward

    def dependent(model: LlamaModel, batch: ForwardBatch) -> torch.Tensor:
        return honest(model, batch) * (1 + 1e-6 * (len(batch.token_ids) % 3))

    monkeypatch.setattr(LlamaModel, "forward", dependent)
    assert not batch_invariance(tiny)


def test_a_short_context_is_enough_for_the_self_test(tmp_path: Path) -> None:
    assert batch_invariance(load_model(write_tiny_llama(tmp_path, max_context=20)))


@pytest.mark.model
def test_smollm2_is_bitwise_the_same_chunked_and_batched() -> None:
    model = load_model(default_model_folder())
    assert batch_invariance(model)
    model.allocate_kv(40, 16)
    tokens, table = made_up_tokens(100, 40_000), range(7)
    rows = [0, 63, 64, 99]
    whole = forward(model, [(tokens, 0, 100, table)], rows)
    for chunk in (16, 50):
        assert torch.equal(chunked(model, tokens, chunk, table)[rows], whole)
    mates = [
        (made_up_tokens(20, 40_000, 1 + index), 0, 20, range(7 + 2 * index, 9 + 2 * index))
        for index in range(15)
    ]
    together = forward(model, [*mates, (tokens, 0, 100, table)], [300 + row for row in rows])
    assert torch.equal(together, whole)
    decodes = [(t, 19, 1, blocks) for t, _, _, blocks in mates]
    last = forward(model, [(tokens, 99, 1, table), *decodes], [0])
    assert torch.equal(last, whole[-1:])
