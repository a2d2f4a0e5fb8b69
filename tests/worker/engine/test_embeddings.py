"""Embeddings against a Llama written down here from its paper, whatever the chunks are."""

import json
import math
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch.nn.functional import scaled_dot_product_attention, silu

from tests.tiny_llama import VOCAB_SIZE, tiny_tokenizer, write_tiny_llama
from tests.worker.engine.driver import Driver
from weir_worker.engine.commands import Preempt
from weir_worker.engine.cuda_runner import CudaRunner
from weir_worker.engine.events import FinishReason
from weir_worker.engine.model_runner import ModelRunner
from weir_worker.engine.null_model import NullRunner
from weir_worker.engine.runner import StepRunner
from weir_worker.linear import Int8Linear
from weir_worker.models.llama import LlamaModel
from weir_worker.models.loader import load_model
from weir_worker.text import detokenizer_factory

IDS = tiny_tokenizer().encode("for all there is one and the other " * 9).ids
WHOLE = len(IDS)
LENGTHS = (WHOLE, 40, 1, 17)


def last_hidden_states(folder: Path, ids: list[int]) -> torch.Tensor:
    """fp64 [tokens, hidden_size]: what the projection to logits would read."""
    config = json.loads((folder / "config.json").read_text())
    tensors = {name: t.double() for name, t in load_file(folder / "model.safetensors").items()}
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
    dim = config.get("head_dim") or config["hidden_size"] // heads

    def norm(x: torch.Tensor, name: str) -> torch.Tensor:
        scale = (x.pow(2).mean(-1, keepdim=True) + config["rms_norm_eps"]).rsqrt()
        normed: torch.Tensor = x * scale * tensors[f"{name}.weight"]
        return normed

    half = torch.arange(0, dim, 2, dtype=torch.float64) / dim
    angles = torch.outer(torch.arange(len(ids)).double(), config["rope_theta"] ** -half)
    cos, sin = angles.cos().repeat(1, 2), angles.sin().repeat(1, 2)

    def turned(x: torch.Tensor) -> torch.Tensor:
        first, second = x.chunk(2, -1)
        return x * cos + torch.cat((-second, first), -1) * sin

    x = tensors["model.embed_tokens.weight"][ids]
    for at in range(config["num_hidden_layers"]):
        layer = f"model.layers.{at}"
        y = norm(x, f"{layer}.input_layernorm")
        q, k, v = (
            (y @ tensors[f"{layer}.self_attn.{part}_proj.weight"].T).view(len(ids), -1, dim)
            for part in "qkv"
        )
        q, k, v = (part.transpose(0, 1) for part in (q, k, v))
        k, v = (part.repeat_interleave(heads // kv_heads, 0) for part in (turned(k), v))
        attended = scaled_dot_product_attention(turned(q), k, v, is_causal=True)
        joined = attended.transpose(0, 1).reshape(len(ids), -1)
        x = x + joined @ tensors[f"{layer}.self_attn.o_proj.weight"].T
        y = norm(x, f"{layer}.post_attention_layernorm")
        gate, up = (y @ tensors[f"{layer}.mlp.{part}_proj.weight"].T for part in ("gate", "up"))
        x = x + (silu(gate) * up) @ tensors[f"{layer}.mlp.down_proj.weight"].T
    return norm(x, "model.norm")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_num_threads(1)
    return write_tiny_llama(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def model(folder: Path) -> LlamaModel:
    return load_model(folder, precision="fp32")


@pytest.fixture(scope="module")
def truth(folder: Path) -> dict[int, torch.Tensor]:
    """The embedding of the first tokens, by how many."""
    means = {length: last_hidden_states(folder, IDS[:length]).mean(0) for length in LENGTHS}
    return {length: mean / mean.norm() for length, mean in means.items()}


def driver_of(
    model: LlamaModel, max_step_tokens: int = 64, runner: StepRunner | None = None
) -> Driver:
    model.allocate_kv(64, 16)
    return Driver(
        num_blocks=64,
        block_size=16,
        runner=runner or ModelRunner(model),
        vocab=VOCAB_SIZE,
        detokenizers=detokenizer_factory(tiny_tokenizer()),
        max_context=512,
        max_step_tokens=max_step_tokens,
    )


def embedding_of(driver: Driver, request_id: str) -> list[float]:
    """The one delta that a request had."""
    deltas = [d for output in driver.outputs for d in output.deltas if d.request_id == request_id]
    (delta,) = deltas
    assert (delta.token_ids, delta.text) == ([], "")
    return delta.embedding


def assert_near(embedding: list[float], truth: torch.Tensor, most: float = 1e-5) -> None:
    assert math.hypot(*embedding) == pytest.approx(1.0)
    assert (torch.tensor(embedding, dtype=torch.float64) - truth).abs().max() < most


@pytest.mark.parametrize("max_step_tokens", [1024, 33, 16])
def test_they_are_those_of_the_paper_among_others(
    model: LlamaModel, truth: dict[int, torch.Tensor], max_step_tokens: int
) -> None:
    driver = driver_of(model, max_step_tokens=max_step_tokens)
    driver.submit("text", IDS[3:60], 6)
    for length in LENGTHS:
        driver.submit(f"e{length}", IDS[:length], 1, embed=True)
    driver.submit("text2", IDS[:20], 3)
    driver.run()
    for length in LENGTHS:
        assert_near(embedding_of(driver, f"e{length}"), truth[length])
        terminal = driver.terminal(f"e{length}")
        assert terminal.finish_reason is FinishReason.STOP
        assert (terminal.usage.prompt_tokens, terminal.usage.completion_tokens) == (length, 0)
        assert terminal.usage.cached_prompt_tokens == 0
    assert len(driver.record("text").tokens) == 6


def test_a_runner_whose_steps_overlap_makes_the_same(
    model: LlamaModel, truth: dict[int, torch.Tensor]
) -> None:
    driver = driver_of(model, 33, CudaRunner(model, torch.device("cpu")))
    driver.submit("text", IDS[3:60], 6)
    for length in LENGTHS:
        driver.submit(f"e{length}", IDS[:length], 1, embed=True)
    driver.run()
    for length in LENGTHS:
        assert_near(embedding_of(driver, f"e{length}"), truth[length])
    assert len(driver.record("text").tokens) == 6


def test_text_beside_them_is_what_it_is_alone(model: LlamaModel) -> None:
    alone = driver_of(model)
    alone.submit("text", IDS[:50], 8)
    alone.run()
    together = driver_of(model)
    together.submit("e", IDS[:60], 1, embed=True)
    together.submit("text", IDS[:50], 8)
    together.run()
    assert together.record("text").tokens == alone.record("text").tokens


def test_nothing_is_read_from_the_cache_nor_left_there(
    model: LlamaModel, truth: dict[int, torch.Tensor]
) -> None:
    driver = driver_of(model)
    driver.submit("before", IDS[:100], 2, tenant_prefix_tokens=100)
    driver.run()
    cached = driver.engine.heartbeat().load.cached_blocks
    driver.submit("e", IDS, 1, embed=True)
    driver.run()
    assert_near(embedding_of(driver, "e"), truth[WHOLE])
    assert driver.engine.heartbeat().load.cached_blocks == cached


def test_a_preemption_begins_the_sum_anew(
    model: LlamaModel, truth: dict[int, torch.Tensor]
) -> None:
    driver = driver_of(model, max_step_tokens=40)
    driver.submit("e", IDS, 1, embed=True)
    driver.step()
    driver.step()
    driver.engine.apply(Preempt("e"))
    driver.run()
    assert_near(embedding_of(driver, "e"), truth[WHOLE])
    assert driver.terminal("e").preemptions == 1


def test_an_abort_ends_it_without_one(model: LlamaModel) -> None:
    driver = driver_of(model, max_step_tokens=40)
    driver.submit("e", IDS, 1, embed=True)
    driver.step()
    driver.abort("e")
    driver.run()
    assert driver.reason("e") is FinishReason.ABORT
    assert 0 < driver.terminal("e").usage.prompt_tokens < WHOLE
    assert not [d for output in driver.outputs for d in output.deltas]


@pytest.mark.skipif(not Int8Linear.supported(), reason="torch without FBGEMM")
def test_of_eight_bits_they_are_in_the_models_own_coordinates(
    folder: Path, truth: dict[int, torch.Tensor]
) -> None:
    driver = driver_of(load_model(folder, precision="int8"))
    driver.submit("e", IDS, 1, embed=True)
    driver.run()
    got = torch.tensor(embedding_of(driver, "e"), dtype=torch.float64)
    assert float(got @ truth[WHOLE]) > 0.99


def test_the_null_models_follow_from_the_tokens() -> None:
    driver = Driver(runner=NullRunner(), max_step_tokens=8, max_running=4)
    for name, ids in (("a", [1, 2, 3] * 5), ("b", [1, 2, 3] * 5), ("c", [9, 9])):
        driver.submit(name, ids, 1, embed=True)
    driver.run()
    same, again, other = (embedding_of(driver, name) for name in "abc")
    assert same == pytest.approx(again)
    assert same != pytest.approx(other, abs=1e-3)
    assert math.hypot(*same) == pytest.approx(1.0)
