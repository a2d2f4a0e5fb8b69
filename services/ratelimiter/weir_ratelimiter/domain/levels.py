"""What a decision may read."""

from typing import Protocol

from weir_ratelimiter.domain.change import Bucket, Count
from weir_ratelimiter.domain.limit import Limit


class Levels(Protocol):
    """Levels of all limits at one moment; reading changes nothing that can be seen."""

    def bucket(self, limit: Limit, now_ms: int) -> Bucket:
        """The bucket of `limit`, refilled to `now_ms` and in the limit's present shape."""

    def bucket_of_removed(self, key: str, now_ms: int) -> Bucket | None:
        """The refilled bucket of a limit that is configured no more, if it is known still."""

    def window(self, key: str, window: str) -> Count | None:
        """What was charged to one window of a limit, and what is held in it.

        None if nothing is known of it: it was never seeded, or is over and forgotten.
        """

    def leases_held(self, key: str, now_ms: int) -> int:
        """Leases out at `now_ms`."""

    def lease_wait_ms(self, key: str, now_ms: int) -> int:
        """Estimated milliseconds until a lease is free."""

    def units_held(self, key: str) -> int:
        """Units that open reservations have of a hold."""
