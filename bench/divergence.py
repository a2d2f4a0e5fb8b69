"""How far the distributions of one set of logits are from another's."""

import numpy as np
from numpy.typing import NDArray

Logits = NDArray[np.float32]


def divergence(reference: Logits, logits: Logits) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """For each row: KL(reference || logits) in nats, and whether the likeliest token agrees.

    Args:
        reference, logits: [rows, vocabulary].

    Raises:
        ValueError: the shapes differ.
    """
    if reference.shape != logits.shape:
        raise ValueError(f"logits of shape {logits.shape}, the reference has {reference.shape}")
    expected, found = _log_softmax(reference), _log_softmax(logits)
    kl = np.sum(np.exp(expected) * (expected - found), axis=-1)
    return kl, reference.argmax(-1) == logits.argmax(-1)


def _log_softmax(logits: Logits) -> NDArray[np.float64]:
    values = logits.astype(np.float64)
    values -= values.max(-1, keepdims=True)
    result: NDArray[np.float64] = values - np.log(np.exp(values).sum(-1, keepdims=True))
    return result
