"""How far one model's predictions are from another's."""

from collections.abc import Sequence
from dataclasses import dataclass

from weir_worker.models.base import CausalModel, ForwardBatch, SequenceSlice

_BLOCK_SIZE = 16
_ROWS = 64  # of which logits are held at once: a large vocabulary needs much memory


@dataclass(frozen=True, slots=True)
class Agreement:
    """Of the next-token distributions over the positions of one text.

    Attributes:
        kl: mean Kullback-Leibler divergence from the reference, nats.
        top1: part of the positions at which both hold the same token for the likeliest.
    """

    kl: float
    top1: float


def agreement(reference: CausalModel, model: CausalModel, token_ids: Sequence[int]) -> Agreement:
    """Compare two models of one vocabulary; replaces both models' KV caches."""
    blocks = -(-len(token_ids) // _BLOCK_SIZE)
    for each in (reference, model):
        each.allocate_kv(blocks, _BLOCK_SIZE)
    divergence, same = 0.0, 0
    for start in range(0, len(token_ids), _ROWS):
        chunk = token_ids[start : start + _ROWS]
        batch = ForwardBatch(
            chunk, [SequenceSlice(start, len(chunk), range(blocks))], range(len(chunk))
        )
        expected = reference.forward(batch).log_softmax(-1)
        got = model.forward(batch).log_softmax(-1)
        divergence += float((expected.exp() * (expected - got)).sum())
        same += int((expected.argmax(-1) == got.argmax(-1)).sum())
    return Agreement(divergence / len(token_ids), same / len(token_ids))
