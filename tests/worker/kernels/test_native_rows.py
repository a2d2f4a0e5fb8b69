import pytest
import torch
from torch.nn import functional

from weir_core.errors import InvalidField
from weir_worker.kernels.gate import NativeGate
from weir_worker.kernels.library import Kernels
from weir_worker.linear import Hadamard, PackedHadamard
from weir_worker.models.rms_norm import RmsNorm
from weir_worker.models.rope import rotate


def _random(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(shape[-1]))


@pytest.mark.parametrize("width", [16, 576, 1536])
def test_norm_agrees_with_torch_and_rows_are_independent(kernels: Kernels, width: int) -> None:
    x, gain = _random(70, width), _random(width)
    whole = kernels.rms_norm(x, gain, 1e-5)
    assert torch.allclose(whole, RmsNorm(gain, width, 1e-5)(x), rtol=1e-5, atol=1e-6)
    for row in (0, 13, 69):
        assert torch.equal(kernels.rms_norm(x[row : row + 1], gain, 1e-5)[0], whole[row])


def test_gate_agrees_with_torch_and_rows_are_independent(kernels: Kernels) -> None:
    gate_up = _random(70, 3072) * 8
    gate_up[0, :4] = torch.tensor([-200.0, 200.0, 0.0, -88.0])
    gate, up = gate_up.chunk(2, dim=1)
    silu_mul = NativeGate(kernels)
    whole = silu_mul(gate_up)
    assert torch.allclose(whole, functional.silu(gate) * up, rtol=1e-5, atol=1e-6)
    for row in (0, 13, 69):
        assert torch.equal(silu_mul(gate_up[row : row + 1])[0], whole[row])
    gate_up[3, 5] = float("nan")
    assert silu_mul(gate_up)[3, 5].isnan()


@pytest.mark.parametrize(
    ("width", "largest"),
    [(1536, 128), (1536, 1536), (64, 64), (80, 128), (48, 128), (336, 128), (688, 688)],
)
def test_transformed_gate_is_exact_and_its_rows_are_independent(
    kernels: Kernels, width: int, largest: int
) -> None:
    hadamard = Hadamard(width, largest)
    gate, plain = NativeGate(kernels, hadamard), NativeGate(kernels)
    gate_up = _random(40, 2 * width)
    whole = gate(gate_up)
    exact = hadamard(plain(gate_up).double())
    assert (whole - exact).norm() < 1e-6 * exact.norm()
    packed = PackedHadamard(hadamard)(plain(gate_up))
    assert (packed - exact).norm() < 1e-6 * exact.norm()
    for row in (0, 13, 39):
        assert torch.equal(gate(gate_up[row : row + 1])[0], whole[row])
    assert torch.equal(gate(gate_up[5:30]), whole[5:30])
    gate_up[3, 5] = float("nan")
    poisoned = gate(gate_up)
    assert poisoned[3, : hadamard.order].isnan().all()
    assert torch.equal(poisoned[4:], whole[4:])


@pytest.mark.parametrize("dim", [16, 64, 128])
def test_rotation_agrees_with_torch_and_leaves_the_rest(kernels: Kernels, dim: int) -> None:
    qkv, cos, sin = _random(9, 6, dim), _random(9, 1, dim), _random(9, 1, dim)
    expected, rest = rotate(qkv[:, :4], cos, sin), qkv[:, 4:].clone()
    single = qkv[5:6].clone()
    kernels.rotate(qkv[:, :4], cos, sin)
    assert torch.allclose(qkv[:, :4], expected, rtol=1e-5, atol=1e-6)
    assert torch.equal(qkv[:, 4:], rest)
    kernels.rotate(single[:, :4], cos[5:6].contiguous(), sin[5:6].contiguous())
    assert torch.equal(single[0], qkv[5])


def test_what_does_not_fit_is_refused(kernels: Kernels) -> None:
    with pytest.raises(InvalidField, match="x is"):
        kernels.rms_norm(_random(4, 32), _random(16), 1e-5)
    with pytest.raises(InvalidField, match="width is 20"):
        kernels.rms_norm(_random(4, 20), _random(20), 1e-5)
    with pytest.raises(InvalidField, match="width is 20; it must be a multiple of 16"):
        NativeGate(kernels)(_random(4, 40))
    with pytest.raises(InvalidField, match="width is 32; it must be a multiple of 64"):
        NativeGate(kernels, Hadamard(64))(_random(4, 64))
    with pytest.raises(InvalidField, match="base is 140; it must be at most 128"):
        NativeGate(kernels, Hadamard(8960))
    with pytest.raises(InvalidField, match="cos is"):
        kernels.rotate(_random(4, 2, 16), _random(3, 1, 16), _random(4, 1, 16))
    with pytest.raises(InvalidField, match="heads one after the other"):
        kernels.rotate(_random(4, 16, 16).transpose(1, 2), _random(4, 1, 16), _random(4, 1, 16))
    with pytest.raises(InvalidField, match="head_dim is 8"):
        kernels.rotate(_random(4, 2, 8), _random(4, 1, 8), _random(4, 1, 8))
