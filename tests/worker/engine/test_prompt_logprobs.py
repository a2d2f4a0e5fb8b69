"""Log-probabilities of the prompt's own tokens, whatever the chunks, the cache and pre-emptions."""

import pytest
import torch

from tests.tiny_llama import VOCAB_SIZE, tiny_tokenizer, write_tiny_llama
from tests.worker.engine.driver import Driver
from weir_worker.engine.commands import Preempt
from weir_worker.engine.model_runner import ModelRunner
from weir_worker.models.base import ForwardBatch, SequenceSlice
from weir_worker.models.llama import LlamaModel
from weir_worker.models.loader import load_model
from weir_worker.sampling import SamplingParams, TokenLogprobs
from weir_worker.text import detokenizer_factory

IDS = tiny_tokenizer().encode("for all there is one and the other " * 9).ids[:150]
TELL = SamplingParams(temperature=0.0, logprobs=2, prompt_logprobs=2)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> LlamaModel:
    torch.set_num_threads(1)
    return load_model(write_tiny_llama(tmp_path_factory.mktemp("tiny")))


@pytest.fixture(scope="module")
def truth(model: LlamaModel) -> torch.Tensor:
    """Log-probabilities after each token, from one pass over the whole prompt: [150, 320]."""
    model.allocate_kv(16, 16)
    rows = list(range(len(IDS)))
    whole = SequenceSlice(0, len(IDS), list(range(10)))
    return model.forward(ForwardBatch(IDS, [whole], rows)).log_softmax(dim=-1)


def driver_of(model: LlamaModel, max_step_tokens: int = 64) -> Driver:
    model.allocate_kv(64, 16)
    return Driver(
        num_blocks=64,
        block_size=16,
        runner=ModelRunner(model),
        vocab=VOCAB_SIZE,
        detokenizers=detokenizer_factory(tiny_tokenizer()),
        max_context=512,
        max_step_tokens=max_step_tokens,
    )


def assert_told(told: list[TokenLogprobs], truth: torch.Tensor) -> None:
    assert len(told) == len(IDS) - 1
    for position, one in enumerate(told):
        row = truth[position]
        assert one.logprob == pytest.approx(float(row[IDS[position + 1]]), abs=1e-4)
        assert one.top_logprobs == pytest.approx(row.topk(2).values.tolist(), abs=1e-4)


@pytest.mark.parametrize("max_step_tokens", [1024, 33, 16])
def test_they_are_those_of_one_pass(
    model: LlamaModel, truth: torch.Tensor, max_step_tokens: int
) -> None:
    driver = driver_of(model, max_step_tokens=max_step_tokens)
    driver.submit("r", IDS, 4, sampling=TELL)
    driver.submit("other", IDS[3:], 4)
    driver.run()
    assert_told(driver.record("r").prompt_logprobs, truth)
    assert len(driver.record("r").logprobs) == 4
    assert driver.record("other").prompt_logprobs == []


def test_nothing_of_the_prompt_is_read_from_the_cache(
    model: LlamaModel, truth: torch.Tensor
) -> None:
    driver = driver_of(model)
    driver.submit("before", IDS, 4, tenant_prefix_tokens=len(IDS))
    driver.run()
    driver.submit("r", IDS, 4, sampling=TELL)
    driver.run()
    assert driver.terminal("r").usage.cached_prompt_tokens == 0
    assert_told(driver.record("r").prompt_logprobs, truth)


def test_a_preemption_repeats_and_loses_none(model: LlamaModel, truth: torch.Tensor) -> None:
    driver = driver_of(model, max_step_tokens=32)
    driver.submit("r", IDS, 6, sampling=TELL)
    driver.step()
    driver.step()
    driver.engine.apply(Preempt("r"))
    driver.run()
    assert driver.terminal("r").preemptions == 1
    assert_told(driver.record("r").prompt_logprobs, truth)


def test_a_prompt_of_one_token_has_none(model: LlamaModel) -> None:
    driver = driver_of(model)
    driver.submit("r", IDS[:1], 2, sampling=TELL)
    driver.run()
    assert driver.record("r").prompt_logprobs == []
    assert len(driver.record("r").tokens) == 2


@pytest.mark.parametrize("steps", [2, 4])
def test_a_second_attempt_is_told_as_much(
    model: LlamaModel, truth: torch.Tensor, steps: int
) -> None:
    driver = driver_of(model)
    driver.submit("r", IDS, 6, sampling=TELL)
    for _ in range(steps):
        driver.step()
    driver.submit("r", IDS, 6, sampling=TELL, attempt=2)
    driver.run()
    assert_told(driver.record("r", 2).prompt_logprobs, truth)
