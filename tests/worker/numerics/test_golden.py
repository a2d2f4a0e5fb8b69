"""Next-token log-probabilities against values computed once with transformers."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from jinja2.sandbox import ImmutableSandboxedEnvironment

from bench.golden_logprobs import (
    ARCHITECTURE_TOKENS,
    ARCHITECTURES,
    GEMMA_TEXTS,
    LONG_TOKENS,
    MESSAGES,
    TEXTS,
    long_text,
)
from tests.default_model import default_model_folder
from tests.tiny_llama import write_tiny_llama
from tests.worker.numerics.support import forward
from weir_core.model_folder import ModelFolder, models_home
from weir_worker.models.llama import LlamaModel
from weir_worker.models.loader import load_model
from weir_worker.models.manifest import Manifest
from weir_worker.models.packaged_model import GEMMA

_GOLDEN: dict[str, Any] = json.loads(
    (Path(__file__).parents[2] / "data" / "golden_logprobs.json").read_text()
)
_TOLERANCE = 1e-3


def _assert_agrees(logits: torch.Tensor, golden: dict[str, Any]) -> None:
    logprobs = logits.double().log_softmax(-1)
    assert set(logprobs.topk(5).indices.tolist()) == set(golden["top_ids"][:5])
    expected = torch.tensor(golden["top_logprobs"], dtype=torch.float64)
    worst = (logprobs[golden["top_ids"]] - expected).abs().max().item()
    assert worst < _TOLERANCE


@pytest.fixture(scope="module")
def smollm() -> LlamaModel:
    model = load_model(default_model_folder())
    model.allocate_kv(1 + LONG_TOKENS // 16, 16)
    return model


@pytest.mark.model
@pytest.mark.parametrize("name", [*TEXTS, "chat", "long"])
def test_smollm2_agrees_with_transformers(smollm: LlamaModel, name: str) -> None:
    golden, folder = _GOLDEN["prompts"][name], ModelFolder(default_model_folder())
    text = {**TEXTS, "chat": golden.get("text"), "long": long_text()}[name]
    ids = folder.load_tokenizer().encode(text, add_special_tokens=False).ids[:LONG_TOKENS]
    assert len(ids) == golden["tokens"]
    assert ids == golden.get("token_ids", ids)
    table = range(1 + LONG_TOKENS // 16)
    logits = forward(smollm, [(ids, 0, len(ids), table)], [len(ids) - 1])
    _assert_agrees(logits[0], golden)


@pytest.mark.model
def test_the_chat_template_renders_as_in_transformers() -> None:
    source = ModelFolder(default_model_folder()).chat_template
    assert source is not None
    template = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True).from_string(
        source
    )
    text = template.render(messages=MESSAGES, add_generation_prompt=True)
    assert text == _GOLDEN["prompts"]["chat"]["text"]


@pytest.fixture(scope="module")
def gemma() -> LlamaModel:
    """Not fetched for the tests: 238 MB to download and 1.1 GB on disk."""
    folder = models_home() / GEMMA.name
    if not Manifest.confirms(folder, GEMMA.sha256):
        pytest.skip("no Gemma 3 here; `weir models pull gemma-3-270m` brings it")
    model = load_model(folder)
    model.allocate_kv(1 + LONG_TOKENS // 16, 16)
    return model


@pytest.mark.needs("gemma3")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", [*GEMMA_TEXTS, "long"])
def test_gemma3_agrees_with_transformers(gemma: LlamaModel, name: str) -> None:
    golden, folder = _GOLDEN["gemma3"][name], ModelFolder(models_home() / GEMMA.name)
    text = {**GEMMA_TEXTS, "long": long_text()}[name]
    ids = folder.load_tokenizer().encode(text).ids[:LONG_TOKENS]
    assert len(ids) == golden["tokens"]
    assert ids == golden.get("token_ids", ids)
    table = range(1 + LONG_TOKENS // 16)
    logits = forward(gemma, [(ids, 0, len(ids), table)], [len(ids) - 1])
    _assert_agrees(logits[0], golden)


@pytest.mark.parametrize("name", ARCHITECTURES)
@pytest.mark.parametrize("attention", ["tiled", "gather_sdpa"])
def test_every_member_of_the_family_agrees_with_transformers(
    tmp_path: Path, name: str, attention: Any
) -> None:
    folder = write_tiny_llama(tmp_path / name, overrides=ARCHITECTURES[name])
    model = load_model(folder, attention=attention)
    model.allocate_kv(10, 16)
    table = [3, 1, 4, 0, 5, 9, 2, 6, 8, 7]
    logits = forward(model, [(ARCHITECTURE_TOKENS, 0, len(ARCHITECTURE_TOKENS), table)])
    for row, golden in _GOLDEN["architectures"][name].items():
        _assert_agrees(logits[int(row)], golden)
