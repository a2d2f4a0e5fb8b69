"""The workers of a lane, by what a placement asks for; kept up to date by what has changed."""

import bisect
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from weir_scheduler.queues.entry import QueueEntry
from weir_scheduler.queues.wait_reason import WaitReason
from weir_scheduler.workers.worker import Worker
from weir_scheduler.workers.worker_view import WorkerView

_Place = tuple[int, float, str]

_REMEMBERED = 8


@dataclass(slots=True)
class _NoRoom:
    """A head that found no room, and the workers that have changed since."""

    entry: QueueEntry
    reason: WaitReason
    changed: dict[str, None] = field(default_factory=dict)


class LaneIndex:
    """Views of a lane's workers, and those with a free place in the order of their backlog.

    A refresh looks at the workers alone that have changed, each in O(log workers), so that a
    decision need not look at all of them.

    Args:
        workers: of the lane.
        now_us: monotonic.
        rng: orders workers of equal backlog.
    """

    def __init__(self, workers: Iterable[Worker], now_us: int, rng: random.Random) -> None:
        self._workers = {worker.info.worker_id: worker for worker in workers}
        self._rng = rng
        self.views: dict[str, WorkerView] = {}
        self._open: list[_Place] = []
        self._places: dict[str, _Place] = {}
        self._recent = 0.0
        self._taking = 0
        self._static = [w for w in self._workers.values() if w.info.static_batching]
        self._dirty: dict[str, None] = dict.fromkeys(self._workers)
        self._no_room: dict[str, _NoRoom] = {}
        self.refresh(now_us)

    def __len__(self) -> int:
        return len(self._workers)

    @property
    def mean_recent(self) -> float:
        """Mean of `WorkerView.recent` over the workers that take work; 0 without any."""
        return self._recent / self._taking if self._taking else 0.0

    def touch(self, worker_id: str) -> None:
        """What is known of a worker may have changed."""
        if worker_id in self._workers:
            self._dirty[worker_id] = None

    def refresh(self, now_us: int) -> None:
        """Looks at what has changed.

        What a static worker gathers depends on the moment, so those are always looked at.
        """
        for worker in self._static:
            self._dirty[worker.info.worker_id] = None
        for worker_id in self._dirty:
            view = self._workers[worker_id].view(now_us)
            if view is not self.views.get(worker_id):
                self._replace(worker_id, view)
                for known in self._no_room.values():
                    known.changed[worker_id] = None
        self._dirty.clear()

    def no_room_for(self, entry: QueueEntry) -> tuple[WaitReason, list[WorkerView]] | None:
        """Why all workers had no room for a request, and those that have changed since.

        None when that is not known of it as it is now.
        """
        known = self._no_room.get(entry.request_id)
        if known is None or known.entry is not entry:
            return None
        return known.reason, [self.views[worker_id] for worker_id in known.changed]

    def remember_no_room(self, entry: QueueEntry, reason: WaitReason) -> None:
        """No worker has room for a request at this moment."""
        self._no_room.pop(entry.request_id, None)
        self._no_room[entry.request_id] = _NoRoom(entry, reason)
        if len(self._no_room) > _REMEMBERED:
            del self._no_room[next(iter(self._no_room))]

    def least_loaded(self) -> Iterator[WorkerView]:
        """Workers that take work and are not full, the smallest backlog first."""
        return (self.views[worker_id] for _, _, worker_id in self._open)

    def _replace(self, worker_id: str, view: WorkerView) -> None:
        self._count(self.views.get(worker_id), -1)
        self._count(view, 1)
        self.views[worker_id] = view
        known = self._places.pop(worker_id, None)
        if known is not None:
            del self._open[bisect.bisect_left(self._open, known)]
        if view.takes_work and not view.full:
            place = self._places[worker_id] = (view.backlog, self._rng.random(), worker_id)
            bisect.insort(self._open, place)

    def _count(self, view: WorkerView | None, sign: int) -> None:
        if view is not None and view.takes_work:
            self._recent += sign * view.recent
            self._taking += sign
        if not self._taking:
            self._recent = 0.0
