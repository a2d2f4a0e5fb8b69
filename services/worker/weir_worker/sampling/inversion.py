"""Inverse transform sampling: from a uniform number to a column by cumulative weight."""

import torch
from torch.nn import functional

_BLOCK = 256


def invert(weights: torch.Tensor, uniforms: torch.Tensor) -> torch.Tensor:
    """The column at which the cumulative weight first exceeds uniform x total.

    Args:
        weights: fp64 [rows, columns], at least 0.
        uniforms: fp64 [rows, 1], from 0 to less than 1.
    """
    cumulative = weights.cumsum(dim=-1)
    return torch.searchsorted(cumulative, cumulative[:, -1:] * uniforms, right=True).squeeze(1)


def invert_wide(weights: torch.Tensor, uniforms: torch.Tensor) -> torch.Tensor:
    """The same for fp32 weights and many columns: first the block, then the place in it.

    Sums of blocks are cumulated in fp64, and one block is looked into.
    """
    rest = -weights.shape[1] % _BLOCK
    blocks = functional.pad(weights, (0, rest)).reshape(len(weights), -1, _BLOCK)
    sums = blocks.sum(2).double()
    cumulative = sums.cumsum(dim=1)
    wanted = cumulative[:, -1:] * uniforms
    block = torch.searchsorted(cumulative, wanted, right=True)
    inside = blocks.gather(1, block[:, :, None].expand(-1, -1, _BLOCK))[:, 0].double().cumsum(1)
    left = wanted - (cumulative - sums).gather(1, block)
    # Both sums are rounded, in another order: the place must be one that has a weight.
    last = torch.nextafter(inside[:, -1:], inside.new_zeros(1))
    place = torch.searchsorted(inside, left.clamp_min(0).minimum(last), right=True)
    return (block * _BLOCK + place).squeeze(1)
