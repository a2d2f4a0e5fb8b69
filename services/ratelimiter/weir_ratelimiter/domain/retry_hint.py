"""Spreads the retries of those who were refused together."""

import hashlib

_STEPS = 1_000
_MOST_MORE = 0.1


def spread(wait_s: float, request_id: str) -> float:
    """`wait_s` and up to a tenth more: the same for every retry of a request."""
    digest = hashlib.blake2b(request_id.encode(), digest_size=4).digest()
    step = int.from_bytes(digest, "big") % (_STEPS + 1)
    return wait_s * (1 + _MOST_MORE * step / _STEPS)
