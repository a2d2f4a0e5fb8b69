"""Rounded weights are kept in the model folder, and used only where they are whole and right."""

import logging
from pathlib import Path

import pytest
import torch

from tests.tiny_llama import write_tiny_llama
from tests.worker.numerics.support import forward, made_up_tokens
from weir_worker.kernels.choice import load_kernels
from weir_worker.kernels.library import Kernels
from weir_worker.linear import Int8Linear
from weir_worker.models.int8_cache import Int8Cache
from weir_worker.models.loader import load_model
from weir_worker.models.parts import TorchParts
from weir_worker.models.rotation import Rotation, Take

pytestmark = pytest.mark.skipif(not Int8Linear.supported(), reason="torch without FBGEMM")

TORCH = str(TorchParts().int8_method)
_TURNED = "model.layers.0.self_attn.q_proj.weight"


@pytest.fixture
def turned(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the tensors that are turned."""
    names: list[str] = []
    original = Rotation.turned

    def spy(self: Rotation, name: str, take: Take) -> torch.Tensor:
        names.append(name)
        return original(self, name, take)

    monkeypatch.setattr(Rotation, "turned", spy)
    return names


def _logits(folder: Path, kernels: Kernels | None = None) -> torch.Tensor:
    model = load_model(folder, precision="int8", kernels=kernels)
    model.allocate_kv(4, 16)
    return forward(model, [(made_up_tokens(40, 320), 0, 40, range(4))])


def _kept(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "int8").iterdir() if path.suffix != ".lock")


@pytest.mark.parametrize("model_type", ["llama", "qwen2"])
def test_a_second_load_turns_no_weight_and_computes_the_same(
    tmp_path: Path, turned: list[str], model_type: str
) -> None:
    folder = write_tiny_llama(tmp_path, overrides={"model_type": model_type})
    first = _logits(folder)
    assert _TURNED in turned
    turned.clear()
    assert torch.equal(_logits(folder), first)
    assert not [name for name in turned if name.endswith("proj.weight") or "embed" in name]
    assert _kept(folder) == [TORCH]


def test_each_method_keeps_its_own(tmp_path: Path) -> None:
    kernels = load_kernels("auto")
    if kernels is None:
        pytest.skip("kernels need Linux on x86-64 with AVX2")
    folder = write_tiny_llama(tmp_path)
    plain, native = _logits(folder), _logits(folder, kernels)
    method = "native-4" if kernels.level == "avx2" else "native-3"
    assert _kept(folder) == [method, TORCH]
    assert torch.equal(_logits(folder), plain)
    assert torch.equal(_logits(folder, kernels), native)


def test_other_weights_are_turned_anew(tmp_path: Path, turned: list[str]) -> None:
    first = _logits(write_tiny_llama(tmp_path))
    turned.clear()
    other = _logits(write_tiny_llama(tmp_path, seed=1))
    assert _TURNED in turned
    assert not torch.equal(other, first)
    assert torch.equal(_logits(write_tiny_llama(tmp_path, seed=1)), other)


@pytest.mark.parametrize("damage", ["flipped", "cut", "missing", "manifest"])
def test_what_is_damaged_is_made_anew(tmp_path: Path, turned: list[str], damage: str) -> None:
    folder = write_tiny_llama(tmp_path)
    first = _logits(folder)
    path = next((folder / "int8" / TORCH).glob("*gate_proj*"))
    content = path.read_bytes()
    if damage == "flipped":
        path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    elif damage == "cut":
        path.write_bytes(content[:-1])
    elif damage == "missing":
        path.unlink()
    else:
        path.with_name("manifest.json").write_text('{"files": {}}')
    turned.clear()
    assert torch.equal(_logits(folder), first)
    assert _TURNED in turned
    assert path.read_bytes() == content
    turned.clear()
    assert torch.equal(_logits(folder), first)
    assert _TURNED not in turned


def _fail(folder: Path) -> None:
    with Int8Cache(folder, TORCH) as cache:
        cache.get("one", lambda: {"levels": torch.ones(3)})
        raise ZeroDivisionError


def test_a_failed_load_leaves_nothing(tmp_path: Path) -> None:
    folder = write_tiny_llama(tmp_path)
    with pytest.raises(ZeroDivisionError):
        _fail(folder)
    assert _kept(folder) == []
    with Int8Cache(folder, TORCH) as cache:
        assert torch.equal(
            cache.get("one", lambda: {"levels": torch.zeros(3)})["levels"], torch.zeros(3)
        )
    assert _kept(folder) == [TORCH]


def test_a_draft_of_a_killed_process_is_no_obstacle(tmp_path: Path) -> None:
    folder = write_tiny_llama(tmp_path)
    draft = folder / "int8" / f".{TORCH}.draft"
    draft.mkdir(parents=True)
    (draft / "half.safetensors").write_bytes(b"half")
    _logits(folder)
    assert _kept(folder) == [TORCH]
    assert not (folder / "int8" / TORCH / "half.safetensors").exists()


def test_a_folder_that_cannot_be_written_is_served(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = write_tiny_llama(tmp_path)
    (folder / "int8").write_text("a file in the way")
    with caplog.at_level(logging.INFO):
        assert bool(_logits(folder).isfinite().all())
    assert "8-bit weights are not kept for the next start" in caplog.text
