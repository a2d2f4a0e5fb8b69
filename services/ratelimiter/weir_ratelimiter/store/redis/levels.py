"""Levels as a script read them: what is told of a decision comes from the domain's own rules."""

from collections.abc import Mapping

from weir_ratelimiter.domain.change import Bucket, Count
from weir_ratelimiter.domain.leases import lease_wait_ms
from weir_ratelimiter.domain.limit import Kind, Limit
from weir_ratelimiter.store.redis import stored
from weir_ratelimiter.store.redis.fields import field_of


class ReadLevels:
    """See `Levels`. `values` are what the script found in each field; None: nothing."""

    def __init__(self, values: Mapping[str, bytes | None]) -> None:
        self._values = values

    def bucket(self, limit: Limit, now_ms: int) -> Bucket:
        """See `Levels`."""
        found = self._values.get(field_of(limit.key, Kind.BUCKET))
        if not found:
            return Bucket(limit.shape, limit.shape.full(now_ms))
        return stored.bucket_from(found).in_shape(limit.shape, now_ms)

    def bucket_of_removed(self, key: str, now_ms: int) -> Bucket | None:
        """See `Levels`."""
        found = self._values.get(field_of(key, Kind.BUCKET))
        if not found:
            return None
        bucket = stored.bucket_from(found)
        return bucket.in_shape(bucket.shape, now_ms)

    def held(self, key: str) -> int:
        """Units that open reservations hold in a bucket."""
        found = self._values.get(field_of(key, Kind.BUCKET))
        return stored.bucket_held(found) if found else 0

    def window(self, key: str, window: str) -> Count | None:
        """See `Levels`."""
        found = self._values.get(field_of(key, Kind.WINDOW, window))
        return stored.count_from(found) if found else None

    def units_held(self, key: str) -> int:
        """See `Levels`."""
        found = self._values.get(field_of(key, Kind.HOLD))
        return stored.units_from(found) if found else 0

    def leases_held(self, key: str, now_ms: int) -> int:
        """See `Levels`; the script counted them at `now_ms`."""
        found = self._values.get(field_of(key, Kind.LEASE))
        return stored.view_from(found, now_ms).taken if found else 0

    def lease_wait_ms(self, key: str, now_ms: int) -> int:
        """See `Levels`."""
        found = self._values.get(field_of(key, Kind.LEASE))
        view = stored.view_from(found, now_ms) if found else stored.NOBODY
        until_lapse_ms = view.next_lapse_ms - now_ms
        return lease_wait_ms(view.taken, view.number, view.ages_ms, until_lapse_ms)
