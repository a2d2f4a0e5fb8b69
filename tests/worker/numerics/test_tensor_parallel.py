"""Two ranks over gloo, on CPU: the numbers of one process, and an end when a rank is gone."""

import queue
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from tests.tiny_llama import write_tiny_llama
from tests.worker.numerics.support import forward, made_up_tokens
from weir_core.errors import InvalidField, WeirError
from weir_worker.engine.config import EngineConfig
from weir_worker.models.llama import LlamaModel
from weir_worker.models.loader import load_model
from weir_worker.parallel.model import ParallelModel, load_parallel_model
from weir_worker.parallel.rank_group import RankGroup

_CPU = torch.device("cpu")
# Biases everywhere, also where a sum over the ranks is taken, and a vocabulary of odd size.
_OVERRIDES = {"attention_bias": True, "vocab_size": 321}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_llama(tmp_path_factory.mktemp("tiny"), overrides=_OVERRIDES)


@pytest.fixture(scope="module")
def single(folder: Path) -> LlamaModel:
    model = load_model(folder)
    model.allocate_kv(16, 16)
    return model


@pytest.fixture(scope="module")
def losses() -> "queue.Queue[str]":
    return queue.Queue()


@pytest.fixture(scope="module")
def double(folder: Path, losses: "queue.Queue[str]") -> Iterator[ParallelModel]:
    model = load_parallel_model(
        folder,
        2,
        device=_CPU,
        dtype=torch.float32,
        attention="auto",
        block_size=16,
        threads=1,
        on_loss=losses.put,
    )
    try:
        model.allocate_kv(16, 16)
        yield model
    finally:
        model.close()


def test_two_ranks_compute_what_one_does(single: LlamaModel, double: ParallelModel) -> None:
    tokens = made_up_tokens(70, 321)
    others = made_up_tokens(20, 321, seed=1)
    table, other = [7, 1, 4, 9, 2], [3, 5]
    steps = [
        [(tokens, 0, 40, table)],
        [(tokens, 40, 29, table), (others, 0, 20, other)],
        [(tokens, 69, 1, table)],
    ]
    for step in steps:
        expected = forward(single, step)
        got = forward(double, step)
        assert got.shape == expected.shape
        assert torch.allclose(got, expected, atol=1e-5, rtol=1e-5)


def test_a_step_without_logits_and_a_wipe(single: LlamaModel, double: ParallelModel) -> None:
    tokens = made_up_tokens(33, 321, seed=2)
    double.clear_kv([0, 1, 2])
    assert forward(double, [(tokens, 0, 32, [0, 1, 2])], rows=[]).shape == (0, 321)
    expected = forward(single, [(tokens, 0, 33, [0, 1, 2])], rows=[32])
    got = forward(double, [(tokens, 32, 1, [0, 1, 2])])
    assert torch.allclose(got, expected, atol=1e-5, rtol=1e-5)


def test_each_rank_holds_half_of_the_heads(single: LlamaModel, double: ParallelModel) -> None:
    assert 2 * double.config.kv_bytes_per_token == single.config.kv_bytes_per_token
    assert (double.config.num_heads, double.config.num_kv_heads) == (2, 1)


@pytest.mark.parametrize(("size", "what"), [(4, "2 KV heads"), (3, "4 attention heads")])
def test_heads_that_cannot_be_divided(folder: Path, size: int, what: str) -> None:
    with pytest.raises(
        InvalidField, match=rf"tensor_parallel_size is {size}.*divisor of the {what}"
    ):
        load_parallel_model(
            folder, size, device=_CPU, dtype=torch.float32, attention="auto", block_size=16
        )


def test_pipeline_parallel_is_refused_with_the_reason() -> None:
    with pytest.raises(InvalidField, match=r"pipeline_parallel_size is 2.*not built"):
        EngineConfig(model="null", pipeline_parallel_size=2)


def test_a_rank_that_ends_before_it_answers_is_told() -> None:
    group = RankGroup(1)
    try:
        group.processes[0].kill()
        with pytest.raises(WeirError, match=r"rank 1: its process ended \(killed by signal 9\)"):
            group.replies(60)
    finally:
        group.close()


def test_a_rank_that_dies_is_told_once_and_the_step_does_not_hang(
    double: ParallelModel, losses: "queue.Queue[str]"
) -> None:
    """The last test of this file: the model cannot be used after it."""
    double._group.processes[0].kill()
    assert losses.get(timeout=60) == "tensor parallel rank 1 ended (killed by signal 9)"
    with pytest.raises((RuntimeError, WeirError)):
        forward(double, [(made_up_tokens(3, 321), 0, 3, [0])])
    assert losses.empty()
