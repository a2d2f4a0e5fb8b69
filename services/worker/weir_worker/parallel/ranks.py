"""One process's place among those that share a model: tensor parallel.

Source: Shoeybi et al., "Megatron-LM" (2019): the first product of a block is cut by outputs,
the second by inputs, so that a layer needs two sums over the ranks and nothing else.
"""

from dataclasses import dataclass

import torch
from torch import distributed
from torch.nn import functional


@dataclass(frozen=True, slots=True)
class Ranks:
    """Sums and joins over the default process group; alone, these do nothing.

    Attributes:
        rank: of this process, from 0.
        size: processes.
    """

    rank: int = 0
    size: int = 1

    def part(self, total: int) -> slice:
        """This rank's rows of `total`, in equal parts; the last may be short or empty."""
        each = -(-total // self.size)
        return slice(min(self.rank * each, total), min((self.rank + 1) * each, total))

    def summed(self, x: torch.Tensor) -> torch.Tensor:
        """The sum of every rank's x, in place."""
        if self.size > 1:
            distributed.all_reduce(x)
        return x

    def joined(self, x: torch.Tensor, width: int) -> torch.Tensor:
        """Every rank's [rows, columns] side by side, without what is beyond `width`."""
        if self.size == 1:
            return x
        parts = x.new_empty((self.size, *x.shape))
        distributed.all_gather(list(parts.unbind()), x.contiguous())
        return parts.transpose(0, 1).reshape(len(x), -1)[:, :width]

    def embedded(self, tokens: torch.Tensor, embedding: torch.Tensor) -> torch.Tensor:
        """Rows of an embedding of which each rank holds a part, [tokens, width]."""
        if self.size == 1:
            return functional.embedding(tokens, embedding)
        own = tokens - self.rank * len(embedding)
        elsewhere = (own < 0) | (own >= len(embedding))
        rows = functional.embedding(own.masked_fill(elsewhere, 0), embedding)
        return self.summed(rows.masked_fill_(elsewhere[:, None], 0))


ALONE = Ranks()
