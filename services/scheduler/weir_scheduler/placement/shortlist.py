"""Which workers of a large fleet are worth a look for one request."""

from collections.abc import Sequence

from weir_scheduler.queues.entry import QueueEntry
from weir_scheduler.workers.lane_index import LaneIndex
from weir_scheduler.workers.pool_prefixes import PoolPrefixes
from weir_scheduler.workers.worker_view import WorkerView

SMALL = 32
"""Fleets of so many workers are looked at whole."""

_HOLDERS = 12
_LEAST_LOADED = 12


def shortlist(
    entry: QueueEntry,
    index: LaneIndex,
    prefixes: PoolPrefixes,
    session_worker: str | None,
) -> Sequence[WorkerView]:
    """The session's worker, those with the most of the prompt, and the least loaded.

    The cheapest worker by uncached prefill + backlog is among them, but where more than 12 hold
    equally much of the prompt and none of those is among the 12 least loaded: then one of equal
    prefix and little more backlog is. O(blocks of the prompt), whatever the number of workers.
    """
    if len(index) <= SMALL:
        return list(index.views.values())
    chosen: dict[str, WorkerView] = {}
    for view, _ in zip(index.least_loaded(), range(_LEAST_LOADED), strict=False):
        chosen[view.info.worker_id] = view
    home = [session_worker] if session_worker is not None else []
    for worker_id in (*home, *prefixes.holders(entry.prefix_hashes, _HOLDERS)):
        known = index.views.get(worker_id)
        if known is not None:
            chosen[worker_id] = known
    return list(chosen.values())
