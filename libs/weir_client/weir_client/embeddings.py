"""Embeddings of texts."""

from dataclasses import dataclass

from weir.common.v1.usage_pb2 import Usage


@dataclass(frozen=True, slots=True)
class Embeddings:
    """What texts were embedded as.

    Attributes:
        vectors: one for each text, in order; each of Euclidean length 1.
        usage: tokens, as charged.
        model: name of the model that made them.
    """

    vectors: tuple[tuple[float, ...], ...]
    usage: Usage
    model: str
