"""A real model (tiny, random) through the real loop: bitwise the same text whatever happens."""

from typing import Any

import pytest
import torch

from tests.tiny_llama import EOS_TOKEN_ID, VOCAB_SIZE, tiny_tokenizer, write_tiny_llama
from tests.worker.engine.driver import Driver
from weir_core.errors import Reason
from weir_worker.engine.commands import Preempt
from weir_worker.engine.events import FinishReason
from weir_worker.engine.model_runner import ModelRunner
from weir_worker.models.base import ForwardBatch
from weir_worker.models.llama import LlamaModel
from weir_worker.models.loader import load_model
from weir_worker.sampling import SamplingParams
from weir_worker.text import detokenizer_factory

BLOCK_SIZE = 16
NUM_BLOCKS = 160
LENGTH = 24
TEXT = (
    "The weir both meters and regulates a flow; there was one for the river, which had been "
    "built when the town was small, and all that you can see of it now is a line of stones. "
)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> LlamaModel:
    torch.set_num_threads(1)  # two threads for such small matrices mostly wait for each other
    return load_model(write_tiny_llama(tmp_path_factory.mktemp("tiny"), max_context=2048))


def prompt(index: int) -> list[int]:
    """Prompts of 5 to 150 tokens, around the edges of blocks and of attention's tiles."""
    lengths = (5, 16, 17, 31, 33, 63, 64, 65, 80, 100, 127, 128, 129, 140, 1, 150)
    ids = tiny_tokenizer().encode(TEXT * 3, add_special_tokens=False).ids
    return ids[index : index + lengths[index % len(lengths)]]


def driver_of(model: LlamaModel, **settings: int) -> Driver:
    num_blocks = settings.pop("num_blocks", NUM_BLOCKS)
    model.allocate_kv(num_blocks, BLOCK_SIZE)
    values: dict[str, Any] = {
        "max_step_tokens": 1024,
        "max_running": 16,
        "max_context": 2048,
        **settings,
    }
    return Driver(
        num_blocks=num_blocks,
        block_size=BLOCK_SIZE,
        runner=ModelRunner(model),
        vocab=VOCAB_SIZE,
        eos=(EOS_TOKEN_ID,),
        detokenizers=detokenizer_factory(tiny_tokenizer()),
        **values,
    )


@pytest.fixture(scope="module")
def alone(model: LlamaModel) -> list[tuple[list[int], str]]:
    """Tokens and text of each prompt, computed by itself from an empty cache."""
    answers = []
    for index in range(16):
        driver = driver_of(model)
        driver.submit("r", prompt(index), LENGTH)
        driver.run()
        record = driver.record("r")
        assert record.text == tiny_tokenizer().decode(record.tokens)
        answers.append((record.tokens, record.text))
    assert len({tuple(tokens) for tokens, _ in answers}) > 10, "prompts must differ to prove much"
    return answers


def submit_all(driver: Driver, **fields: object) -> None:
    for index in range(16):
        driver.submit(f"r{index}", prompt(index), LENGTH, **fields)


def assert_same(driver: Driver, alone: list[tuple[list[int], str]]) -> None:
    for index, (tokens, text) in enumerate(alone):
        assert driver.record(f"r{index}").tokens == tokens, f"prompt {index}"
        assert driver.record(f"r{index}").text == text


def test_engine_agrees_with_the_model_run_whole(
    model: LlamaModel, alone: list[tuple[list[int], str]]
) -> None:
    """Each token is the argmax of one forward pass over everything before it."""
    from weir_worker.models.base import SequenceSlice

    for index in (0, 7, 13):
        context = prompt(index)
        for expected in alone[index][0]:
            model.allocate_kv(NUM_BLOCKS, BLOCK_SIZE)
            piece = SequenceSlice(0, len(context), range(NUM_BLOCKS))
            logits = model.forward(ForwardBatch(context, [piece], [len(context) - 1]))
            assert int(logits.argmax()) == expected
            context = [*context, expected]


@pytest.mark.parametrize("chunk", [1, 16, 50, 0])
def test_same_text_in_a_batch_of_16_and_in_any_chunks(
    model: LlamaModel, alone: list[tuple[list[int], str]], chunk: int
) -> None:
    driver = driver_of(model, max_prefill_chunk=chunk)
    submit_all(driver)
    driver.run()
    assert_same(driver, alone)


def test_same_text_from_the_cache(model: LlamaModel, alone: list[tuple[list[int], str]]) -> None:
    driver = driver_of(model)
    for _ in range(2):
        driver.records.clear()
        submit_all(driver, private_scope="session")
        driver.run()
        assert_same(driver, alone)
    cached = [driver.terminal(f"r{i}").usage.cached_prompt_tokens for i in range(16)]
    assert cached == [(len(prompt(i)) - 1) // BLOCK_SIZE * BLOCK_SIZE for i in range(16)]


def test_same_text_after_forced_preemptions(
    model: LlamaModel, alone: list[tuple[list[int], str]]
) -> None:
    driver = driver_of(model, max_prefill_chunk=40)
    submit_all(driver)
    for step in range(60):
        if step % 2 == 1:
            driver.engine.apply(Preempt(f"r{step * 7 % 16}"))
        driver.step()
    driver.run()
    assert_same(driver, alone)
    assert sum(driver.terminal(f"r{i}").preemptions for i in range(16)) >= 10


def test_same_text_when_memory_runs_out(
    model: LlamaModel, alone: list[tuple[list[int], str]]
) -> None:
    driver = driver_of(model, num_blocks=30, max_step_tokens=100)
    submit_all(driver)
    driver.run()
    assert_same(driver, alone)
    assert driver.outputs[-1].load.counters.preemptions > 0


def test_another_tenant_with_the_same_prompts_changes_no_bit(model: LlamaModel) -> None:
    """Neither what is computed for a tenant, nor what comes of it, to the last bit of logits."""

    def told(crowded: bool) -> dict[str, object]:
        driver = driver_of(model)
        sampling = SamplingParams(temperature=0.0, logprobs=4)
        for turn in range(2):
            for index in range(6):
                fields = {"sampling": sampling, "tenant_prefix_tokens": len(prompt(index)) // 2}
                for tenant in ("spy", "acme") if crowded else ("acme",):
                    name = f"{tenant}{turn}{index}"
                    driver.submit(name, prompt(index), 6, tenant=tenant, **fields)
            driver.run()
        heard: dict[str, object] = {}
        for output in driver.outputs:
            for delta in output.deltas:
                if delta.request_id.startswith("acme"):
                    key = f"{delta.request_id}/{len(heard)}"
                    heard[key] = delta.token_ids, delta.logprobs
        usages = {
            name: driver.terminal(name).usage
            for name, _ in driver.records
            if name.startswith("acme")
        }
        return {"heard": sorted(map(repr, heard.values())), "usages": usages}

    assert told(crowded=True) == told(crowded=False)


def test_seeded_text_is_the_same_alone_and_in_a_batch(model: LlamaModel) -> None:
    def answers(indices: list[int]) -> list[list[int]]:
        driver = driver_of(model)
        for index in indices:
            params = SamplingParams(
                temperature=0.8 + index / 10, top_p=(1.0, 0.9)[index % 2], seed=index
            )
            driver.submit(f"r{index}", prompt(index), LENGTH, sampling=params)
        driver.run()
        return [driver.record(f"r{index}").tokens for index in indices]

    together = answers(list(range(8)))
    assert together == [answers([index])[0] for index in range(8)]
    assert len({tuple(tokens) for tokens in together}) == 8


def test_nan_of_one_request_reaches_nobody_else(
    model: LlamaModel, alone: list[tuple[list[int], str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its KV holds NaN; whoever gets its blocks next must not see it."""
    driver = driver_of(model, num_blocks=60)
    embedding = model._embedding
    poisoned = embedding.clone()
    poison = 3
    poisoned[poison] = float("nan")
    monkeypatch.setattr(model, "_embedding", poisoned)
    driver.submit("poison", [poison] * 70, LENGTH, tenant="evil")
    driver.submit("r0", prompt(0), LENGTH)
    driver.run()
    failure = driver.terminal("poison").failure
    assert failure is not None
    assert failure.reason is Reason.ENGINE_FAILED
    assert driver.reason("poison") is FinishReason.ERROR
    monkeypatch.undo()
    for index in range(1, 16):
        driver.submit(f"r{index}", prompt(index), LENGTH)
    driver.run()
    assert_same(driver, alone)
