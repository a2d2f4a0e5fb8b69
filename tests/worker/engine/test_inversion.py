"""From a uniform number to a token."""

import pytest
import torch

from weir_worker.sampling.inversion import invert, invert_wide


def _values(rows: int, columns: int) -> torch.Tensor:
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(columns))


@pytest.mark.parametrize("columns", [1, 255, 256, 1000, 49_152])
def test_wide_inversion_agrees_with_the_plain_one(columns: int) -> None:
    weights = _values(20, columns).mul_(3).exp_()
    uniforms = torch.rand(20, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    whole = invert_wide(weights, uniforms)
    plain = invert(weights.double(), uniforms)
    # Sums are rounded otherwise: a number that falls on a border may go to a neighbour.
    assert (whole - plain).abs().max() <= 1
    assert (whole == plain).sum() >= 19
    for row in range(20):
        one = slice(row, row + 1)
        assert torch.equal(invert_wide(weights[one], uniforms[one]), whole[one])


def test_wide_inversion_never_takes_what_has_no_weight() -> None:
    weights = torch.zeros(4, 1000)
    weights[:, 300], weights[:, 511], weights[:, 900] = 0.1, 0.7, 1e-7
    uniforms = torch.tensor([[0.0], [0.125], [0.1249999999], [1 - 2.0**-52]], dtype=torch.float64)
    assert set(invert_wide(weights, uniforms).tolist()) <= {300, 511, 900}
