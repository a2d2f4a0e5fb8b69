"""Log-probabilities of one drawn token."""

import msgspec


class TokenLogprobs(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What the model gave one drawn token and its likeliest rivals.

    Attributes:
        logprob: natural logarithm of its probability, at least -9999.
        top_ids: the likeliest tokens, likeliest first.
        top_logprobs: theirs.
    """

    logprob: float
    top_ids: list[int]
    top_logprobs: list[float]
