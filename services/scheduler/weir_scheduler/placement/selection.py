"""Which workers are offered to the heads of a lane during one pass over it."""

from collections.abc import Sequence

from weir_scheduler.placement.context import PlacementContext
from weir_scheduler.placement.placement import (
    AwaitsSession,
    Blocked,
    Placed,
    Placement,
    Stranded,
    TooLarge,
)
from weir_scheduler.placement.placer import Placer
from weir_scheduler.placement.shortlist import SMALL, no_room_at_once, shortlist
from weir_scheduler.queues.entry import QueueEntry
from weir_scheduler.queues.wait_reason import WaitReason
from weir_scheduler.workers.lane_index import LaneIndex
from weir_scheduler.workers.pool_prefixes import PoolPrefixes
from weir_scheduler.workers.worker_view import WorkerView


class Selection:
    """Offers a placer few workers of many, and all of them before it takes no for an answer.

    Of a large fleet without room for a head only those are offered again that have changed.

    Args:
        placer: decides.
        index: the lane's workers, refreshed.
        prefixes: what they hold.
        without: workers that are not offered in this pass.
    """

    def __init__(
        self, placer: Placer, index: LaneIndex, prefixes: PoolPrefixes, without: set[str]
    ) -> None:
        self._placer = placer
        self._index = index
        self._prefixes = prefixes
        self._without = without

    def place(self, entry: QueueEntry, context: PlacementContext) -> Placement:
        """Places a request; see `Placer.place`."""
        if self._without:
            return self._place_without(entry, context)
        at_once = no_room_at_once(entry, self._index)
        if at_once is not None:
            return Blocked(at_once)
        if len(self._index) <= SMALL:
            return self._placer.place(entry, self.views(), context)
        known = self._index.no_room_for(entry)
        if known is not None:
            return self._look_again(entry, known[0], known[1], context)
        few = shortlist(entry, self._index, self._prefixes, context.session_worker)
        placement = self._placer.place(entry, few, context) if few else None
        if isinstance(placement, Placed | AwaitsSession):
            return placement
        return self._look_at_all(entry, context)

    def _place_without(self, entry: QueueEntry, context: PlacementContext) -> Placement:
        """One who needs a worker that is kept out waits for it: it is there."""
        placement = self._placer.place(entry, self.views(), context)
        if not isinstance(placement, TooLarge | Stranded):
            return placement
        of_all = self._placer.place(entry, list(self._index.views.values()), context)
        unable = isinstance(of_all, TooLarge | Stranded | Blocked)
        return of_all if unable else Blocked(WaitReason.WORKER_FULL)

    def views(self) -> list[WorkerView]:
        """Every worker that is offered."""
        views = self._index.views
        if not self._without:
            return list(views.values())
        return [view for worker_id, view in views.items() if worker_id not in self._without]

    def keep_out(self, worker_id: str) -> None:
        """Offers a worker no more in this pass."""
        self._without.add(worker_id)

    def _look_again(
        self,
        entry: QueueEntry,
        reason: WaitReason,
        changed: Sequence[WorkerView],
        context: PlacementContext,
    ) -> Placement:
        if not changed:
            return Blocked(reason)
        placement = self._placer.place(entry, changed, context)
        if isinstance(placement, Placed):
            return placement
        if all(view.takes_work for view in changed):
            self._index.remember_no_room(entry, reason)
            return Blocked(reason)
        return self._look_at_all(entry, context)

    def _look_at_all(self, entry: QueueEntry, context: PlacementContext) -> Placement:
        placement = self._placer.place(entry, self.views(), context)
        if isinstance(placement, Blocked) and placement.reason is not WaitReason.NO_WORKER:
            self._index.remember_no_room(entry, placement.reason)
        return placement
