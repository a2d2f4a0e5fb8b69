"""What a request used, and how far the count may be trusted."""

from enum import IntEnum
from typing import Self

import msgspec

from weir_core.bucket import check_units
from weir_core.errors import InvalidField


class Quality(IntEnum):
    """Where a usage comes from (`weir.common.v1.UsageQuality`)."""

    EXACT = 1
    ESTIMATED = 2
    UNKNOWN = 3


class Usage(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Tokens of one request. An explicit 0 is a count, never a missing value."""

    prompt_tokens: int = 0
    cached_prompt_tokens: int = 0
    completion_tokens: int = 0

    @classmethod
    def of(cls, prompt: object, cached: object, completion: object) -> Self:
        """Build a usage from untrusted numbers.

        Raises:
            InvalidField: a number is no integer, out of bounds, or cached exceeds prompt.
        """
        usage = cls(
            check_units("usage.prompt_tokens", prompt),
            check_units("usage.cached_prompt_tokens", cached),
            check_units("usage.completion_tokens", completion),
        )
        if usage.cached_prompt_tokens > usage.prompt_tokens:
            bound = f"at most usage.prompt_tokens ({usage.prompt_tokens})"
            raise InvalidField("usage.cached_prompt_tokens", cached, bound)
        return usage

    def at_least(self, other: "Usage") -> "Usage":
        """Each count raised to that of `other`."""
        return Usage(
            max(self.prompt_tokens, other.prompt_tokens),
            max(self.cached_prompt_tokens, other.cached_prompt_tokens),
            max(self.completion_tokens, other.completion_tokens),
        )
