import pytest
import torch

from weir_worker.linear import PackedLinear, PlainLinear, make_linear


@pytest.mark.parametrize("shape", [(96, 64), (291, 48)])
@pytest.mark.parametrize("biased", [False, True])
def test_both_kinds_multiply_and_packed_rows_are_independent(
    shape: tuple[int, int], biased: bool
) -> None:
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(shape, generator=generator)
    bias = torch.randn(shape[0], generator=generator) if biased else None
    x = torch.randn(70, shape[1], generator=generator)
    exact = x.double() @ weight.double().T + (0 if bias is None else bias.double())
    packed, plain = PackedLinear(weight, bias), PlainLinear(weight, bias)
    with torch.inference_mode():
        whole = packed(x)
        assert torch.allclose(whole.double(), exact, atol=1e-4)
        assert torch.allclose(plain(x).double(), exact, atol=1e-4)
        for rows in (1, 2, 3, 4, 5, 16, 33, 64):
            assert torch.equal(packed(x[:rows]), whole[:rows])


def test_without_the_private_operators_the_plain_layer_serves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    weight = torch.randn(8, 4)
    assert isinstance(make_linear(weight), PackedLinear)
    monkeypatch.setattr(torch.ops, "mkldnn", object())
    assert isinstance(make_linear(weight), PlainLinear)
    assert isinstance(make_linear(weight.bfloat16()), PlainLinear)
