"""Which workers of a large fleet are worth a look for one request."""

import sys
from collections.abc import Sequence
from itertools import islice

from weir_scheduler.placement.fit import blocked_by, never_fits, start_blocks
from weir_scheduler.queues.entry import QueueEntry
from weir_scheduler.queues.wait_reason import WaitReason
from weir_scheduler.workers.lane_index import LaneIndex
from weir_scheduler.workers.pool_prefixes import PoolPrefixes
from weir_scheduler.workers.worker_view import WorkerView

SMALL = 32
"""Fleets of so many workers are looked at whole."""

_HOLDERS = 12
_LEAST_LOADED = 12
_LOOKED_AT = 64


def shortlist(
    entry: QueueEntry,
    index: LaneIndex,
    prefixes: PoolPrefixes,
    session_worker: str | None,
) -> Sequence[WorkerView]:
    """The session's worker, those with the most of the prompt, and the least loaded with room.

    The cheapest worker by uncached prefill + backlog is among them, but where more than 12 hold
    equally much of the prompt and none of those is among the 12 least loaded: then one of equal
    prefix and little more backlog is. O(blocks of the prompt), whatever the number of workers.
    All workers, where none of the 64 least loaded has room.
    """
    if len(index) <= SMALL:
        return list(index.views.values())
    some = islice(index.least_loaded(), _LOOKED_AT)
    with_room = (view for view in some if blocked_by(entry, view) is None)
    chosen = {view.info.worker_id: view for view in islice(with_room, _LEAST_LOADED)}
    if not chosen:
        return list(index.views.values())
    home = [session_worker] if session_worker is not None else []
    for worker_id in (*home, *prefixes.holders(entry.prefix_hashes, _HOLDERS)):
        known = index.views.get(worker_id)
        if known is not None:
            chosen[worker_id] = known
    return list(chosen.values())


def no_room_at_once(entry: QueueEntry, index: LaneIndex) -> WaitReason | None:
    """Why no worker has room, where that is seen without a look at each; None: not seen.

    Either none has a free place, or none has the KV blocks that the request begins with. Only
    where all workers are of one kind that could run it, and the request has excluded none.
    """
    kinds = index.kinds
    if len(kinds) != 1 or index.has_static or entry.excluded or not index.has_taking:
        return None
    info = kinds[0].info
    if never_fits(entry, info, kinds[0].rules) is not None:
        return None
    if not index.has_open:
        rules = kinds[0].rules
        places = min(rules.max_concurrent_requests, info.max_concurrent_requests or sys.maxsize)
        fewer = rules.max_batch_size < places
        return WaitReason.BATCH_FULL if fewer else WaitReason.WORKER_FULL
    if info.total_kv_blocks and start_blocks(entry, info) > index.most_free_kv:
        return WaitReason.KV_FULL
    return None
