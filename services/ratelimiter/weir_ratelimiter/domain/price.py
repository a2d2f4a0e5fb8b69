"""What tokens cost, in integers: nano-units of the deployment's currency."""

from typing import Self

import msgspec

from weir_core.bucket import MAX_UNITS, check_units
from weir_ratelimiter.domain.usage import Usage


class Price(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Nano-units per token, as in force when a request was reserved."""

    input_nanos: int = 0
    cached_input_nanos: int = 0
    output_nanos: int = 0

    @classmethod
    def of(cls, where: str, input_nanos: object, cached: object, output_nanos: object) -> Self:
        """Build a price from untrusted numbers.

        Raises:
            InvalidField: a number is no integer or out of bounds.
        """
        return cls(
            check_units(f"{where}.input_nanos", input_nanos),
            check_units(f"{where}.cached_input_nanos", cached),
            check_units(f"{where}.output_nanos", output_nanos),
        )

    def cost(self, usage: Usage) -> int:
        """Nano-units that a usage costs, at most 2^53-1: more is charged as that."""
        uncached = usage.prompt_tokens - usage.cached_prompt_tokens
        exact = (
            uncached * self.input_nanos
            + usage.cached_prompt_tokens * self.cached_input_nanos
            + usage.completion_tokens * self.output_nanos
        )
        return min(exact, MAX_UNITS)

    def most(self, prompt_tokens: int, output_tokens: int) -> int:
        """Nano-units that a request costs at most, whatever the cache holds."""
        dearest = max(self.input_nanos, self.cached_input_nanos)
        return min(prompt_tokens * dearest + output_tokens * self.output_nanos, MAX_UNITS)


FREE = Price()
