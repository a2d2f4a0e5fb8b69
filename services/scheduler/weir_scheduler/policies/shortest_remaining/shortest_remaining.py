"""Shortest remaining work first, with aging."""

from weir_scheduler.policies.ordering import OrderKey
from weir_scheduler.policies.overtaking import Overtaking
from weir_scheduler.queues.entry import QueueEntry
from weir_scheduler.rules.ordering_parameters import OrderingParameters

_DEFAULTS = OrderingParameters()
_BOUNDS = Overtaking(promote_after_us=10_000_000, promote_every=4, max_overtaken=None)
_AGING_US_PER_TOKEN = 20_000


class ShortestRemaining:
    """By uncached prompt + predicted output, less what waiting has earned.

    Linear aging: a request that is `d` tokens longer goes first once it has waited
    `d x aging_us_per_token` longer, so no stream of short requests can hold it back for ever.
    On top of that the aged overtake at a bounded rate (see `Promotion`).

    Args:
        parameters: replace defaults; all matter here.

    Raises:
        ValueError: a parameter is out of its range.
    """

    name = "shortest_remaining"

    def __init__(self, parameters: OrderingParameters = _DEFAULTS) -> None:
        self.overtaking: Overtaking | None = _BOUNDS.adjusted(parameters)
        aging = parameters.aging_us_per_token
        self._aging_us_per_token = _AGING_US_PER_TOKEN if aging is None else aging
        if self._aging_us_per_token < 0:
            raise ValueError(f"aging_us_per_token is {aging}; it must be 0 or more")

    def key(self, entry: QueueEntry) -> OrderKey:
        """Remaining tokens turned into time, plus arrival; by size alone without aging."""
        remaining = entry.prompt_tokens - entry.cached_tokens + entry.predicted_output
        if not self._aging_us_per_token:
            return (remaining, entry.arrival_us, entry.sequence)
        return (remaining * self._aging_us_per_token + entry.arrival_us, entry.sequence)

    def band(self, entry: QueueEntry) -> int:
        """All alike: what is cached counts in the size already."""
        return 0
