"""SmolLM2 through the real loop: greedy text is bitwise the same whatever happens."""

import pytest
import torch
from tokenizers import Tokenizer

from tests.default_model import default_model_folder
from tests.worker.engine.driver import Driver
from weir_core.model_folder import ModelFolder
from weir_worker.engine.commands import Preempt
from weir_worker.engine.model_runner import ModelRunner
from weir_worker.models.llama import LlamaModel
from weir_worker.models.loader import load_model
from weir_worker.text import detokenizer_factory

pytestmark = [pytest.mark.model, pytest.mark.timeout(600)]

BLOCK_SIZE = 16
LENGTH = 6
PROMPTS = (
    "The capital of France is",
    "def fibonacci(n: int) -> int:\n    if n < 2:\n        return n\n    return",
    "在中国的首都，人们",
    "Once upon a time there was a small weir in a river. " * 2,
    "1, 2, 3, 5, 8, 13,",
    "Dear Sir or Madam,\n\nI am writing to you about",
    "😀 means happy, 😢 means",
    "A",
)


@pytest.fixture(scope="module")
def folder() -> ModelFolder:
    return ModelFolder(default_model_folder())


@pytest.fixture(scope="module")
def model(folder: ModelFolder) -> LlamaModel:
    torch.set_num_threads(1)  # two that wait for each other crawl beside other load
    return load_model(folder.path)


@pytest.fixture(scope="module")
def tokenizer(folder: ModelFolder) -> Tokenizer:
    return folder.load_tokenizer()


@pytest.fixture(scope="module")
def prompts(tokenizer: Tokenizer) -> list[list[int]]:
    texts = [*PROMPTS, *(f"{index}. {text}" for index, text in enumerate(PROMPTS))]
    return [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]


def driver_of(model: LlamaModel, tokenizer: Tokenizer, chunk: int = 0) -> Driver:
    model.allocate_kv(200, BLOCK_SIZE)
    return Driver(
        num_blocks=200,
        block_size=BLOCK_SIZE,
        max_step_tokens=512,
        max_prefill_chunk=chunk,
        runner=ModelRunner(model),
        vocab=model.config.vocab_size,
        eos=model.config.eos_token_ids,
        detokenizers=detokenizer_factory(tokenizer),
    )


@pytest.fixture(scope="module")
def alone(
    model: LlamaModel, tokenizer: Tokenizer, prompts: list[list[int]]
) -> list[tuple[list[int], str]]:
    """Tokens and text of the first 8 prompts, each computed by itself from an empty cache."""
    answers = []
    for prompt in prompts[:8]:
        driver = driver_of(model, tokenizer)
        driver.submit("r", prompt, LENGTH)
        driver.run()
        record = driver.record("r")
        assert record.text == tokenizer.decode(record.tokens)
        answers.append((record.tokens, record.text))
    return answers


def test_the_answer_makes_sense(alone: list[tuple[list[int], str]]) -> None:
    assert alone[0][1].startswith(" Paris")


@pytest.mark.parametrize("chunk", [1, 50, 0])
def test_same_text_in_a_batch_of_16_in_any_chunks_and_cached(
    model: LlamaModel,
    tokenizer: Tokenizer,
    prompts: list[list[int]],
    alone: list[tuple[list[int], str]],
    chunk: int,
) -> None:
    driver = driver_of(model, tokenizer, chunk)
    for run in ("computed", "cached"):
        for index, prompt in enumerate(prompts):
            driver.submit(f"{run}{index}", prompt, LENGTH, private_scope="s")
        driver.run()
        for index, answer in enumerate(alone):
            record = driver.record(f"{run}{index}")
            assert (record.tokens, record.text) == answer, f"{run}, prompt {index}"
    assert driver.outputs[-1].load.counters.session_hits > 0


def test_same_text_after_forced_preemptions(
    model: LlamaModel,
    tokenizer: Tokenizer,
    prompts: list[list[int]],
    alone: list[tuple[list[int], str]],
) -> None:
    driver = driver_of(model, tokenizer, chunk=30)
    for index, prompt in enumerate(prompts):
        driver.submit(f"r{index}", prompt, LENGTH)
    for step in range(8):
        driver.step()
        for offset in (0, 7):
            driver.engine.apply(Preempt(f"r{(step * 5 + offset) % 8}"))
        driver.step()
    driver.run()
    assert sum(driver.terminal(f"r{index}").preemptions for index in range(8)) >= 5
    for index, answer in enumerate(alone):
        record = driver.record(f"r{index}")
        assert (record.tokens, record.text) == answer, f"prompt {index}"
