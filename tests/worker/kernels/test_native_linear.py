from collections.abc import Callable
from functools import partial

import pytest
import torch

from weir_core.errors import InvalidField
from weir_worker.kernels.library import Kernels
from weir_worker.kernels.linear import NativeInt8Linear, NativeLinear, NativeWideLinear
from weir_worker.linear import Int8Weight, Linear

_INT8 = [NativeInt8Linear, partial(NativeInt8Linear, fine=True), NativeWideLinear]
_SHAPES = [(96, 64), (291, 48), (1, 1), (33, 130), (576, 1536)]
_ROWS = (1, 2, 3, 4, 5, 12, 13, 16, 17, 33, 64, 97)


def _made(shape: tuple[int, int], biased: bool) -> tuple[torch.Tensor, torch.Tensor | None]:
    generator = torch.Generator().manual_seed(shape[0])
    weight = torch.randn(shape, generator=generator) / shape[1] ** 0.5
    return weight, torch.randn(shape[0], generator=generator) if biased else None


def _input(shape: tuple[int, int], rows: int = 130) -> torch.Tensor:
    """Rows of very different magnitudes."""
    generator = torch.Generator().manual_seed(1)
    return torch.randn(rows, shape[1], generator=generator) * torch.logspace(-3, 3, rows)[:, None]


@pytest.mark.parametrize("shape", _SHAPES)
@pytest.mark.parametrize("biased", [False, True])
def test_fp32_multiplies_and_rows_are_independent(
    kernels: Kernels, shape: tuple[int, int], biased: bool
) -> None:
    (weight, bias), x = _made(shape, biased), _input(shape)
    linear, offset = NativeLinear(kernels, weight, bias), 0 if bias is None else bias.double()
    whole = linear(x)
    exact = x.double() @ weight.double().T + offset
    assert ((whole - exact).abs() <= 1e-5 * x.norm(dim=1, keepdim=True) + 1e-6).all()
    for rows in _ROWS:
        assert torch.equal(linear(x[:rows]), whole[:rows])
        assert torch.equal(linear(x[-rows:]), whole[-rows:])


@pytest.mark.parametrize("shape", _SHAPES)
@pytest.mark.parametrize("biased", [False, True])
def test_int8_is_the_integer_product_and_rows_are_independent(
    kernels: Kernels, shape: tuple[int, int], biased: bool
) -> None:
    (weight, bias), x = _made(shape, biased), _input(shape)
    scales = weight.abs().amax(1) / 127
    levels = (weight / scales[:, None]).round().to(torch.int8)
    linear = NativeInt8Linear(kernels, Int8Weight(levels, scales), bias)
    peaks = x.abs().amax(1, keepdim=True)
    rounded = (x * (127 / peaks)).round()
    exact = (rounded.double() @ levels.double().T) * (peaks / 127 * scales).double()
    exact += 0 if bias is None else bias.double()
    whole = linear(x)
    assert torch.allclose(whole.double(), exact, rtol=1e-5, atol=1e-5 * float(exact.abs().max()))
    for rows in _ROWS:
        assert torch.equal(linear(x[:rows]), whole[:rows])
        assert torch.equal(linear(x[-rows:]), whole[-rows:])


@pytest.mark.parametrize("shape", _SHAPES)
@pytest.mark.parametrize("biased", [False, True])
def test_wide_is_the_integer_product_and_rows_are_independent(
    kernels: Kernels, shape: tuple[int, int], biased: bool
) -> None:
    (weight, bias), x = _made(shape, biased), _input(shape)
    rounded = Int8Weight.full_range(weight)
    linear = NativeWideLinear(kernels, rounded, bias)
    depth, offset = -(-shape[1] // 16) * 16, 0 if bias is None else bias.double()
    level = min(32_767, (2**31 - 1) // (127 * depth))
    peaks = x.abs().amax(1, keepdim=True)
    levels = (x * (level / peaks)).round().double()
    sums = levels @ rounded.levels.double().T
    exact = sums * (peaks / level * rounded.scales).double() + offset
    whole = linear(x)
    assert torch.allclose(whole.double(), exact, rtol=1e-4, atol=1e-4 * float(exact.abs().max()))
    # Activations of 14 bits: what is left is the rounding of the weight.
    near = x.double() @ (rounded.levels * rounded.scales[:, None]).double().T + offset
    bound = 1e-3 * x.norm(dim=1, keepdim=True) + 1e-5
    assert ((whole - near).abs() <= bound).all()
    for rows in _ROWS:
        assert torch.equal(linear(x[:rows]), whole[:rows])
        assert torch.equal(linear(x[-rows:]), whole[-rows:])


@pytest.mark.parametrize("shape", _SHAPES)
@pytest.mark.parametrize("biased", [False, True])
def test_fine_activations_leave_the_rounding_of_the_weight_and_rows_are_independent(
    kernels: Kernels, shape: tuple[int, int], biased: bool
) -> None:
    (weight, bias), x = _made(shape, biased), _input(shape)
    rounded = Int8Weight.full_range(weight)
    coarse = NativeInt8Linear(kernels, rounded, bias)(x)
    linear = NativeInt8Linear(kernels, rounded, bias, fine=True)
    whole, offset = linear(x), 0 if bias is None else bias.double()
    near = x.double() @ (rounded.levels * rounded.scales[:, None]).double().T + offset
    bound = 1e-4 * x.norm(dim=1, keepdim=True) + 1e-5
    assert ((whole - near).abs() <= bound).all()
    assert shape[1] < 16 or ((coarse - near).abs() > bound).any()
    for rows in _ROWS:
        assert torch.equal(linear(x[:rows]), whole[:rows])
        assert torch.equal(linear(x[-rows:]), whole[-rows:])


def test_wide_sums_of_the_largest_numbers_are_exact(kernels: Kernels) -> None:
    for depth in (16, 1536, 65_536):
        signs = torch.tensor([1, -1], dtype=torch.int8).repeat(depth // 2)
        levels = torch.stack([torch.full((depth,), 127, dtype=torch.int8), -127 * signs])
        linear = NativeWideLinear(kernels, Int8Weight(levels, torch.full((2,), 1 / 127)))
        x = torch.stack([torch.ones(depth), signs.float()])
        expected = torch.tensor([[depth, 0], [0, -depth]], dtype=torch.float32)
        assert torch.allclose(linear(x), expected, rtol=1e-6)


def test_the_number_of_threads_changes_no_bit(kernels: Kernels) -> None:
    (weight, _), x = _made((291, 48), False), _input((291, 48))
    for linear in (
        NativeLinear(kernels, weight),
        NativeInt8Linear(kernels, Int8Weight.full_range(weight)),
        NativeInt8Linear(kernels, Int8Weight.full_range(weight), fine=True),
        NativeWideLinear(kernels, Int8Weight.full_range(weight)),
    ):
        whole = linear(x)
        for threads in (1, 2):
            torch.set_num_threads(threads)
            assert torch.equal(linear(x), whole)


def test_int8_sums_of_the_largest_numbers_are_exact(kernels: Kernels) -> None:
    signs = torch.tensor([1, -1], dtype=torch.int8).repeat(1024)
    levels = torch.stack([torch.full((2048,), 127, dtype=torch.int8), 127 * signs, -127 * signs])
    linear = NativeInt8Linear(kernels, Int8Weight(levels, torch.full((3,), 1 / 127)))
    x = torch.stack([torch.ones(2048), signs.float(), -torch.ones(2048)])
    expected = torch.tensor([[2048, 0, 0], [0, 2048, -2048], [-2048, 0, 0]], dtype=torch.float32)
    assert torch.allclose(linear(x), expected, rtol=1e-6)


@pytest.mark.parametrize("kind", _INT8)
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_int8_marks_a_row_that_is_not_finite_and_no_other(
    kernels: Kernels, bad: float, kind: Callable[..., Linear]
) -> None:
    weight, _ = _made((64, 64), False)
    linear, x = kind(kernels, Int8Weight.full_range(weight)), _input((64, 64), 20)
    clean = linear(x)
    x[7, 3] = bad
    spoilt = linear(x)
    assert spoilt[7].isnan().all()
    kept = [row for row in range(20) if row != 7]
    assert torch.equal(spoilt[kept], clean[kept])


@pytest.mark.parametrize("kind", _INT8)
def test_int8_of_nothing_is_nothing(kernels: Kernels, kind: Callable[..., Linear]) -> None:
    weight, bias = _made((64, 64), True)
    assert bias is not None
    linear = kind(kernels, Int8Weight.full_range(weight), bias)
    assert torch.equal(linear(torch.zeros(2, 64)), bias.expand(2, 64))
    assert linear(torch.zeros(0, 64)).shape == (0, 64)
    assert NativeLinear(kernels, weight)(torch.zeros(0, 64)).shape == (0, 64)


def test_what_does_not_fit_is_refused(kernels: Kernels) -> None:
    weight, _ = _made((64, 32), False)
    for linear in (
        NativeLinear(kernels, weight),
        NativeInt8Linear(kernels, Int8Weight.full_range(weight)),
    ):
        for x in (torch.zeros(2, 33), torch.zeros(2, 64)[:, ::2], torch.zeros(2, 32).double()):
            with pytest.raises(InvalidField, match=r"x is .* it must be contiguous torch.float32"):
                linear(x)
    with pytest.raises(InvalidField, match="bias is"):
        NativeLinear(kernels, weight, torch.zeros(63))
    with pytest.raises(InvalidField, match="scales is"):
        NativeInt8Linear(kernels, Int8Weight(weight.to(torch.int8), torch.ones(63)))
    with pytest.raises(InvalidField, match="levels is -128; it must be at least -127"):
        NativeInt8Linear(
            kernels, Int8Weight(torch.full((1, 4), -128, dtype=torch.int8), torch.ones(1))
        )
    with pytest.raises(InvalidField, match="1 to 65536 inputs"):
        NativeInt8Linear(
            kernels, Int8Weight(torch.ones(1, 65_537, dtype=torch.int8), torch.ones(1))
        )
