"""How one request's tokens are drawn."""

import math

import msgspec

from weir_core.errors import InvalidField

COOLEST = 0.01
HOTTEST = 2.0
_INT64 = 2**63


class SamplingParams(msgspec.Struct, frozen=True, array_like=True):
    """Validated sampling parameters of one request.

    Attributes:
        temperature: 0 to 2; 0 is greedy, values below 0.01 count as 0.01.
        top_p: above 0, at most 1.
        top_k: most likely tokens to choose from; 0 or -1 is off.
        seed: draws are a function of seed and position alone; None: the engine picks one.

    Raises:
        InvalidField: a value is not finite or out of its range.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    seed: int | None = None

    def __post_init__(self) -> None:
        if not (math.isfinite(self.temperature) and 0.0 <= self.temperature <= HOTTEST):
            raise InvalidField("temperature", self.temperature, "a finite number from 0 to 2")
        if not (math.isfinite(self.top_p) and 0.0 < self.top_p <= 1.0):
            raise InvalidField("top_p", self.top_p, "a finite number above 0 and at most 1")
        if not -1 <= self.top_k < 2**31:
            raise InvalidField("top_k", self.top_k, "0 or -1 (off), or at least 1")
        if self.seed is not None and not -_INT64 <= self.seed < _INT64:
            raise InvalidField("seed", self.seed, "a signed 64-bit integer")

    @property
    def greedy(self) -> bool:
        """Whether the likeliest token is always taken."""
        return self.temperature == 0.0 or self.top_k == 1
