"""8-bit linear layers: exact integer sums, and rows that know nothing of each other."""

import pytest
import torch

from weir_worker.linear import Hadamard, Int8Linear, Int8Weight, PackedHadamard
from weir_worker.models.parts import TorchParts

pytestmark = pytest.mark.skipif(not Int8Linear.supported(), reason="torch without FBGEMM")

SHAPES = [(96, 64), (291, 49), (33, 576)]


def _weight(out: int, width: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(out, width, generator=torch.Generator().manual_seed(seed)) * 0.05


def _wild_rows(rows: int, width: int) -> torch.Tensor:
    """Magnitudes from 1e-12 to 1e12, some rows of zeros, some with one huge value."""
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(rows, width, generator=generator) * torch.logspace(-12, 12, rows)[:, None]
    x[5::16] = 0
    x[7::16, 3] *= 1e4
    return x


@pytest.mark.parametrize("shape", SHAPES)
def test_a_row_is_the_same_alone_and_in_every_batch(shape: tuple[int, int]) -> None:
    linear = Int8Linear(Int8Weight.rounded(_weight(*shape)))
    x = _wild_rows(64, shape[1])
    whole = linear(x)
    for row in range(64):
        assert torch.equal(linear(x[row : row + 1])[0], whole[row])
    for rows in range(1, 65):
        assert torch.equal(linear(x[:rows]), whole[:rows])
        assert torch.equal(linear(x[64 - rows :]), whole[64 - rows :])


@pytest.mark.parametrize("poison", [float("nan"), float("inf"), float("-inf"), 3e38])
def test_a_poisoned_row_changes_no_other(poison: float) -> None:
    linear = Int8Linear(Int8Weight.rounded(_weight(96, 64)), _weight(1, 96)[0])
    x = _wild_rows(40, 64)
    clean = linear(x)
    x[[0, 13, 39], 17] = poison
    got = linear(x)
    others = [row for row in range(40) if row not in (0, 13, 39)]
    assert torch.equal(got[others], clean[others])
    if poison != 3e38:
        assert not got[[0, 13, 39]].isfinite().any()


@pytest.mark.parametrize("shape", SHAPES)
def test_sums_are_those_of_the_rounded_numbers(shape: tuple[int, int]) -> None:
    weight, bias = Int8Weight.rounded(_weight(*shape)), _weight(1, shape[0], 2)[0]
    x = torch.randn(30, shape[1], generator=torch.Generator().manual_seed(3))
    largest = x.abs().amax(1, keepdim=True)
    levels = (x / largest * 127).round().double()
    sums = levels @ weight.levels.double().T
    expected = sums / 127 * weight.scales.double() * largest.double() + bias.double()
    got = Int8Linear(weight, bias)(x).double()
    # A level that is a tie but for fp32 may be rounded either way.
    assert (got - expected).abs().max() < 1e-3
    assert ((got - expected).abs() < 1e-5).float().mean() > 0.8


def test_no_sum_of_neighbours_saturates_where_products_are_added_in_16_bits() -> None:
    worst = torch.ones(4, 64) * torch.tensor([[1.0], [-1.0], [0.5], [1.0]])
    worst[3, 1::2] = -1
    for weight in (worst, _weight(200, 49), torch.zeros(3, 8), torch.full((2, 3), 1e-38)):
        levels = Int8Weight.rounded(weight).levels.int()
        padded = torch.nn.functional.pad(levels, (0, levels.shape[1] % 2))
        pairs = padded.view(len(padded), -1, 2)
        assert levels.abs().max() <= 127
        assert 255 * pairs.clamp_min(0).sum(2).max() <= 32_767
        assert 255 * pairs.clamp_max(0).sum(2).min() >= -32_768
    linear = Int8Linear(Int8Weight.rounded(worst))
    assert torch.allclose(linear(torch.ones(1, 64))[0, :3], 64 * worst[:3, 0], rtol=0.01)


def test_whether_neighbours_saturate_is_what_the_kernels_show() -> None:
    """Full levels, whose pairs exceed 16 bits, at numbers of rows that get kernels of their own."""
    weight = Int8Weight.full_range(torch.full((64, 576), 0.3))
    assert int(weight.levels.min()) == 127
    x = torch.ones(40, 576)
    right = [
        torch.allclose(Int8Linear(weight)(x[:rows]), torch.tensor(576 * 0.3), rtol=1e-4)
        for rows in (1, 2, 16, 40)
    ]
    assert right == [not Int8Linear.saturates()] * 4
    kind = TorchParts()
    bound = {"torch-1": 128, "torch-2": 254}[str(kind.int8_method)]
    levels = kind.int8_weight(torch.full((1, 8), 0.3)).levels.int()
    assert int(levels[0, :2].sum()) == pytest.approx(bound, abs=2)


def test_the_error_is_that_of_8_bits() -> None:
    weight = _weight(300, 576)
    x = torch.randn(50, 576, generator=torch.Generator().manual_seed(4))
    exact = x @ weight.T
    error = (Int8Linear(Int8Weight.rounded(weight))(x) - exact).norm() / exact.norm()
    assert 0.001 < error < 0.015


@pytest.mark.parametrize(
    ("width", "order"),
    [(1, 1), (3, 1), (6, 2), (12, 12), (64, 64), (448, 448), (576, 576), (1536, 1536), (688, 16)],
)
def test_hadamard_transforms_are_orthogonal_and_of_the_largest_order(
    width: int, order: int
) -> None:
    hadamard = Hadamard(width)
    block = hadamard.block()
    assert hadamard.order == order
    assert torch.allclose(block @ block.T, torch.eye(order, dtype=torch.float64), atol=1e-12)
    assert torch.allclose(block.abs(), torch.full_like(block, order**-0.5))
    x = torch.randn(3, width, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    expected = (x.view(3, -1, order) @ block).view(3, width)
    assert torch.allclose(hadamard(x), expected, atol=1e-12)


def test_a_bound_on_the_order_is_kept() -> None:
    assert Hadamard(1536, 64).order == 64
    assert Hadamard(1536, 1).order == 1
    x = torch.randn(2, 1536)
    assert torch.equal(Hadamard(1536, 1)(x), x)


@pytest.mark.parametrize("width", [1536, 512, 48])
def test_a_transform_has_the_same_bits_alone_and_in_every_batch(width: int) -> None:
    hadamard = Hadamard(width)
    packed = PackedHadamard(hadamard)
    x = torch.randn(64, width, generator=torch.Generator().manual_seed(6))
    whole = packed(x)
    assert torch.allclose(whole, hadamard(x.double()).float(), atol=1e-5)
    for rows in range(1, 65):
        assert torch.equal(packed(x[:rows]), whole[:rows])
