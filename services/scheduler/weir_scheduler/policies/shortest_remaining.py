"""Shortest remaining work first, with aging."""

from weir_scheduler.policies.ordering import OrderKey
from weir_scheduler.queues.entry import QueueEntry


class ShortestRemaining:
    """By prompt + predicted output, less what waiting has earned.

    Linear aging: a request that is `d` tokens longer goes first once it has waited
    `d x aging_us_per_token` longer, so no stream of short requests can hold it back for ever.
    On top of that the aged overtake at a bounded rate (see `Promotion`).
    """

    name = "shortest_remaining"

    def __init__(
        self, aging_us_per_token: int = 20_000, promote_after_us: int = 10_000_000
    ) -> None:
        self._aging_us_per_token = aging_us_per_token
        self.promote_after_us: int | None = promote_after_us

    def key(self, entry: QueueEntry) -> OrderKey:
        """Remaining tokens turned into time, plus arrival; then sequence."""
        remaining = entry.prompt_tokens + entry.predicted_output
        return (remaining * self._aging_us_per_token + entry.arrival_us, entry.sequence)
