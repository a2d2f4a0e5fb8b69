"""All that applies to one subject under one version of the directory."""

from collections.abc import Sequence

from weir_ratelimiter.domain.limit import Kind, Limit, Resource
from weir_ratelimiter.domain.price import Price

_TOKENS = (Resource.TOKENS, Resource.IN_FLIGHT_TOKENS)
_OUTPUT = (*_TOKENS, Resource.OUTPUT_TOKENS)


class Resolution:
    """Limits and policies of one subject.

    Attributes:
        limits: every limit, contexts included, in the order of evaluation.
        counted: those that have a level: buckets, windows, lease sets and holds.
        by_key: `counted` by key.
        estimate: reserve what is likely instead of `max_new_tokens`.
        may_owe: an extension that does not fit goes into bounded debt instead of stopping.
        version: version of the directory.
        price: what tokens of the subject's model cost.
    """

    def __init__(
        self,
        limits: Sequence[Limit],
        *,
        estimate: bool,
        may_owe: bool,
        version: int,
        price: Price,
    ) -> None:
        self.limits = tuple(limits)
        self.counted = tuple(limit for limit in limits if limit.kind is not Kind.CONTEXT)
        self.by_key = {limit.key: limit for limit in self.counted}
        self.estimate = estimate
        self.may_owe = may_owe
        self.version = version
        self.price = price
        self._output_resources = (*_OUTPUT, Resource.COST) if price.output_nanos else _OUTPUT

    def most_output(self, prompt_tokens: int) -> int | None:
        """Output that the smallest limit can ever hold beside the prompt, tokens."""
        rooms = [
            self._room(limit, prompt_tokens)
            for limit in self.counted
            if limit.resource in self._output_resources and not limit.shadow
        ]
        return min(rooms, default=None)

    def _room(self, limit: Limit, prompt_tokens: int) -> int:
        if limit.resource is Resource.OUTPUT_TOKENS:
            return limit.capacity
        if limit.resource in _TOKENS:
            return limit.capacity - prompt_tokens
        return (limit.capacity - self.price.most(prompt_tokens, 0)) // self.price.output_nanos
