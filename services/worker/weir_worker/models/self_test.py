"""Checks on the processor at hand that batch-mates and chunks change no bit of an answer."""

from collections.abc import Sequence

import torch

from weir_worker.models.base import CausalModel, ForwardBatch, SequenceSlice

_BLOCK_SIZE = 16
_LENGTH = 67  # crosses the boundary of attention's tiles at 64
_CHUNKS = (16, 1, 3, 30, 16, 1)
_MATES = (40, 16, 3, 1)


def batch_invariance(model: CausalModel) -> bool:
    """Whether logits are bitwise equal whole or chunked, alone or in a batch.

    Allocates a small KV cache: call it before the cache proper is allocated. About ten
    forward passes of up to 140 rows.
    """
    probe = _Probe(model)
    length = min(_LENGTH, model.config.max_context)
    whole = probe.run([(0, 0, length)])
    return (
        torch.equal(whole, probe.chunked(length))
        and torch.equal(whole, probe.beside_mates(length))
        and torch.equal(whole[-1:], probe.decoded_beside_mates(length))
    )


class _Probe:
    """Runs slices (sequence, start, length) of made-up sequences, each with its own blocks."""

    def __init__(self, model: CausalModel) -> None:
        self._model = model
        self._vocab = model.config.vocab_size
        self._blocks = -(-_LENGTH // _BLOCK_SIZE)
        model.allocate_kv((len(_MATES) + 1) * self._blocks, _BLOCK_SIZE)

    def run(self, slices: Sequence[tuple[int, int, int]]) -> torch.Tensor:
        """Logits of all rows of the slices."""
        tokens = [
            (position * 7919 + sequence * 104_729 + 13) % self._vocab
            for sequence, start, length in slices
            for position in range(start, start + length)
        ]
        pieces = [
            SequenceSlice(start, length, self._table(sequence))
            for sequence, start, length in slices
        ]
        return self._model.forward(ForwardBatch(tokens, pieces, range(len(tokens)))).clone()

    def chunked(self, length: int) -> torch.Tensor:
        """Logits of sequence 0 by chunks of several sizes."""
        parts, start = [], 0
        for chunk in _CHUNKS:
            chunk = min(chunk, length - start)
            if chunk:
                parts.append(self.run([(0, start, chunk)]))
                start += chunk
        return torch.cat(parts)

    def beside_mates(self, length: int) -> torch.Tensor:
        """Logits of sequence 0, whole, between other sequences' rows."""
        mates = [(1 + index, 0, min(rows, length)) for index, rows in enumerate(_MATES)]
        logits = self.run([*mates[:2], (0, 0, length), *mates[2:]])
        before = mates[0][2] + mates[1][2]
        return logits[before : before + length]

    def decoded_beside_mates(self, length: int) -> torch.Tensor:
        """Logits of the last row of sequence 0 in a step of single rows."""
        mates = [(1 + index, min(rows, length) - 1, 1) for index, rows in enumerate(_MATES)]
        return self.run([*mates, (0, length - 1, 1)])[-1:]

    def _table(self, sequence: int) -> list[int]:
        return list(range(sequence * self._blocks, (sequence + 1) * self._blocks))[::-1]
