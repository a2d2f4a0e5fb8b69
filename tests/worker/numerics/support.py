"""Short ways to run a model in tests."""

from collections.abc import Sequence

import torch

from weir_worker.models.base import CausalModel, ForwardBatch, SequenceSlice


def forward(
    model: CausalModel,
    pieces: Sequence[tuple[Sequence[int], int, int, Sequence[int]]],
    rows: Sequence[int] | None = None,
) -> torch.Tensor:
    """Logits of `rows` (all by default) for pieces (tokens, start, length, block table)."""
    ids = [token for tokens, start, length, _ in pieces for token in tokens[start : start + length]]
    slices = [SequenceSlice(start, length, table) for _, start, length, table in pieces]
    wanted = range(len(ids)) if rows is None else rows
    return model.forward(ForwardBatch(ids, slices, wanted)).clone()


def chunked(
    model: CausalModel, tokens: Sequence[int], chunk: int, table: Sequence[int]
) -> torch.Tensor:
    """Logits of all tokens, computed `chunk` rows at a time."""
    starts = range(0, len(tokens), chunk)
    return torch.cat(
        [forward(model, [(tokens, at, min(chunk, len(tokens) - at), table)]) for at in starts]
    )


def made_up_tokens(count: int, vocab_size: int, seed: int = 0) -> list[int]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(3, vocab_size, (count,), generator=generator).tolist()
