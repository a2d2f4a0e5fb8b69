"""The bucket behind an entry, whatever became of its limit since it was reserved."""

from collections.abc import Mapping

from weir_ratelimiter.domain.change import Bucket
from weir_ratelimiter.domain.levels import Levels
from weir_ratelimiter.domain.limit import Limit
from weir_ratelimiter.domain.reservation import Entry


def bucket_of(
    entry: Entry, limits: Mapping[str, Limit], levels: Levels, now_ms: int
) -> Bucket | None:
    """The refilled bucket that `entry` was debited from.

    None if its limit was removed, or is of another kind now, and nothing is owed to it: there
    is nothing left to correct.
    """
    limit = limits.get(entry.key)
    if limit is not None and limit.kind is entry.kind:
        return levels.bucket(limit, now_ms)
    return levels.bucket_of_removed(entry.key, now_ms)
