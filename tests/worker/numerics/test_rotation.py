"""A turned model computes the same; in 8 bits nearly the same, and independent of batch-mates."""

import json
from pathlib import Path

import pytest
import torch

from bench.golden_logprobs import ARCHITECTURE_TOKENS, ARCHITECTURES
from bench.int8_quality import TEXTS
from tests.default_model import default_model_folder
from tests.tiny_llama import write_tiny_llama
from tests.worker.numerics.support import chunked, forward, made_up_tokens
from weir_core.errors import InvalidField
from weir_core.model_folder import ModelFileError
from weir_worker.engine.config import EngineConfig
from weir_worker.engine.factory import build_engine
from weir_worker.linear import Int8Linear, Int8Weight, Linear, make_linear
from weir_worker.models import int8_record
from weir_worker.models.agreement import agreement
from weir_worker.models.int8_check import measure, read_texts, table
from weir_worker.models.int8_record import Int8Record, weights_digest
from weir_worker.models.llama import LlamaModel
from weir_worker.models.loader import load_model
from weir_worker.models.parts import TorchParts
from weir_worker.models.self_test import batch_invariance

pytestmark = pytest.mark.skipif(not Int8Linear.supported(), reason="torch without FBGEMM")

TURNED = [name for name in ARCHITECTURES if not name.startswith("gemma")]
TOKENS = ARCHITECTURE_TOKENS


@pytest.fixture
def exact_int8(monkeypatch: pytest.MonkeyPatch) -> None:
    """Turn the model, but round nothing."""

    def weight(parts: TorchParts, weight: torch.Tensor) -> Int8Weight:
        return Int8Weight(weight, torch.ones(len(weight)))

    def linear(
        parts: TorchParts,
        weight: Int8Weight,
        bias: torch.Tensor | None = None,
        *,
        fine: bool = False,
    ) -> Linear:
        return make_linear(weight.levels, bias)

    monkeypatch.setattr(TorchParts, "int8_weight", weight)
    monkeypatch.setattr(TorchParts, "int8_linear", linear)


def _logits(model: LlamaModel) -> torch.Tensor:
    model.allocate_kv(10, 16)
    return forward(model, [(TOKENS, 0, len(TOKENS), range(10))])


@pytest.mark.usefixtures("exact_int8")
@pytest.mark.parametrize("name", TURNED)
def test_a_turned_model_computes_the_same(tmp_path: Path, name: str) -> None:
    folder = write_tiny_llama(tmp_path / name, overrides=ARCHITECTURES[name])
    plain, turned = load_model(folder), load_model(folder, precision="int8")
    worst = (_logits(plain) - _logits(turned)).abs().max().item()
    assert 0 < worst < 1e-4


@pytest.mark.parametrize("name", TURNED)
def test_eight_bits_stay_near(tmp_path: Path, name: str) -> None:
    folder = write_tiny_llama(tmp_path / name, overrides=ARCHITECTURES[name])
    found = agreement(load_model(folder), load_model(folder, precision="int8"), TOKENS)
    assert 1e-6 < found.kl < 0.05
    assert found.top1 > 0.8


def test_a_model_agrees_with_itself_and_not_with_another(tmp_path: Path) -> None:
    one = load_model(write_tiny_llama(tmp_path / "one"))
    other = load_model(write_tiny_llama(tmp_path / "other", seed=1))
    same = agreement(one, load_model(tmp_path / "one"), TOKENS)
    assert (same.kl, same.top1) == (0.0, 1.0)
    different = agreement(one, other, TOKENS)
    assert different.kl > 1
    assert different.top1 < 0.2


def test_int8_is_bitwise_the_same_chunked_and_batched(tmp_path: Path) -> None:
    model = load_model(write_tiny_llama(tmp_path), precision="int8")
    assert batch_invariance(model)
    model.allocate_kv(60, 16)
    tokens, table = made_up_tokens(100, 320), range(7)
    whole = forward(model, [(tokens, 0, 100, table)])
    for chunk in (1, 3, 16, 50):
        assert torch.equal(chunked(model, tokens, chunk, table), whole)
    mates = [
        (made_up_tokens(20, 320, 1 + index), 0, 20, range(7 + 2 * index, 9 + 2 * index))
        for index in range(15)
    ]
    together = forward(model, [*mates, (tokens, 0, 100, table)])
    assert torch.equal(together[300:], whole)


def test_what_cannot_be_turned_is_refused(tmp_path: Path) -> None:
    gemma = write_tiny_llama(tmp_path, overrides=ARCHITECTURES["gemma3"])
    with pytest.raises(InvalidField, match=r"precision is 'int8'.*gemma3"):
        load_model(gemma, precision="int8")
    assert load_model(gemma, precision="auto").int8_method is None


def test_without_fbgemm_fp32_takes_its_place_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(Int8Linear, "supported", staticmethod(lambda: False))
    model = load_model(write_tiny_llama(tmp_path), precision="int8")
    assert model.int8_method is None
    assert "computing in fp32 and not in int8" in caplog.text


@pytest.mark.parametrize("figures", [(0.02, 0.93), (0.0201, 0.99), (0.001, 0.929)])
def test_auto_goes_by_the_record_of_these_weights(
    tmp_path: Path, figures: tuple[float, float]
) -> None:
    folder = write_tiny_llama(tmp_path / "tiny")
    assert load_model(folder, precision="auto").int8_method is None
    record = Int8Record(
        weights_sha256=weights_digest(folder),
        method=str(TorchParts().int8_method),
        tokens=600,
        texts={"easy": (0.0, 1.0), "hard": figures},
    )
    record.write(folder)
    assert record.good == (figures == (0.02, 0.93))
    expected = record.method if record.good else None
    assert load_model(folder, precision="auto").int8_method == expected
    assert load_model(folder, precision="fp32").int8_method is None
    write_tiny_llama(folder, seed=1)  # other weights beside the old record
    assert load_model(folder, precision="auto").int8_method is None


def test_a_record_is_measured_written_and_told(tmp_path: Path) -> None:
    folder = write_tiny_llama(tmp_path / "tiny")
    record = measure(folder, {"a": "one word and another " * 9, "b": "0123456789 " * 9}, tokens=64)
    path = record.write(folder)
    assert record == Int8Record.find(folder, str(TorchParts().int8_method))
    assert record.write(folder) == path
    assert len(json.loads(path.read_text())) == 1
    assert "worst" in table(record)
    assert record.kl == max(kl for kl, _ in record.texts.values())
    with pytest.raises(ModelFileError, match="text short has 2 tokens; at least 64"):
        measure(folder, {"short": "ab"}, tokens=64)


def test_the_engine_tells_its_precision(tmp_path: Path) -> None:
    folder = str(write_tiny_llama(tmp_path))
    for precision, dtype in (("int8", "int8"), ("auto", "float32")):
        config = EngineConfig(model=folder, precision=precision, kernels="off", num_blocks=8)  # type: ignore[arg-type]
        ready = build_engine(config).ready
        assert (ready.dtype, ready.batch_invariant) == (dtype, True)
    with pytest.raises(InvalidField, match="precision is 'int4'"):
        EngineConfig(model=folder, precision="int4")  # type: ignore[arg-type]
    with pytest.raises(InvalidField, match="tensor_parallel_size above 1"):
        EngineConfig(model=folder, precision="int8", tensor_parallel_size=2)


@pytest.mark.model
@pytest.mark.timeout(600)
def test_the_default_model_is_proven_and_its_record_holds() -> None:
    folder = default_model_folder()
    for method in ("torch-1", "torch-2", "native-3", "native-4"):
        record = Int8Record.find(folder, method)
        assert record is not None
        assert record.good
    texts = read_texts(TEXTS)
    shipped = json.loads(int8_record.SHIPPED.read_text())
    assert all(set(each["texts"]) == set(texts) for each in shipped)
    record = Int8Record.find(folder, str(TorchParts().int8_method))
    assert record is not None
    measured = measure(folder, {"chinese_prose": texts["chinese_prose"]})
    kl, top1 = measured.texts["chinese_prose"]
    assert kl == pytest.approx(record.texts["chinese_prose"][0], rel=0.1)
    assert top1 == pytest.approx(record.texts["chinese_prose"][1], abs=0.01)
