"""The random numbers of one request."""

import hashlib
import secrets
import struct

from weir_worker.sampling.params import COOLEST, SamplingParams

_UNIT = 2.0**-52


class SamplingState:
    """Parameters of a request and how many tokens it has drawn.

    A counter-based generator: the number for position n is a hash of (seed, n). It does not
    depend on batch-mates, chunks or pre-emptions, and nothing has to be saved or restored.

    Attributes:
        params: as submitted.
        temperature: the divisor of the logits, at least 0.01.
        drawn: tokens drawn so far; the engine counts it up.
    """

    __slots__ = ("_seed", "drawn", "greedy", "params", "temperature")

    def __init__(self, params: SamplingParams) -> None:
        self.params = params
        self.greedy = params.greedy
        self.temperature = max(params.temperature, COOLEST)
        self.drawn = 0
        seed = secrets.randbits(63) if params.seed is None else params.seed
        self._seed = struct.pack("<q", seed)

    def uniform(self) -> float:
        """Return the number in [0, 1) for the next token."""
        counter = struct.pack("<q", self.drawn)
        digest = hashlib.blake2b(self._seed + counter, digest_size=8, person=b"weir-sample")
        return (int.from_bytes(digest.digest(), "little") >> 12) * _UNIT
