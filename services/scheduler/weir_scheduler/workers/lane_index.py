"""The workers of a lane, by what a placement asks for; kept up to date by what has changed."""

import bisect
import random
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from weir_scheduler.queues.entry import QueueEntry
from weir_scheduler.queues.wait_reason import WaitReason
from weir_scheduler.rules.rules import WorkerRules
from weir_scheduler.workers.worker import Worker
from weir_scheduler.workers.worker_view import WorkerView

_Place = tuple[int, float, str]
_Kind = tuple[int, int, int, int, bool, WorkerRules]

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
        self._by_free: list[tuple[int, str]] = []
        self._kinds: Counter[_Kind] = Counter()
        self._of_kind: dict[_Kind, WorkerView] = {}
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

    @property
    def kinds(self) -> list[WorkerView]:
        """One worker of each kind: what never fits it, fits none of its kind."""
        return list(self._of_kind.values())

    @property
    def has_open(self) -> bool:
        """Whether some worker takes work and is not full."""
        return bool(self._open)

    @property
    def has_taking(self) -> bool:
        """Whether some worker takes work."""
        return self._taking > 0

    @property
    def has_static(self) -> bool:
        """Whether some worker batches statically: its room depends on more than its counters."""
        return bool(self._static)

    @property
    def most_free_kv(self) -> int:
        """Most free KV blocks of a worker that takes work and is not full; 0 without any."""
        return self._by_free[-1][0] if self._by_free else 0

    def _replace(self, worker_id: str, view: WorkerView) -> None:
        before = self.views.get(worker_id)
        if before is not None:
            self._forget(before)
        self._count(view, 1)
        kind = _kind(view)
        self._kinds[kind] += 1
        self._of_kind[kind] = view
        self.views[worker_id] = view
        if view.takes_work and not view.full:
            place = self._places[worker_id] = (view.backlog, self._rng.random(), worker_id)
            bisect.insort(self._open, place)
            bisect.insort(self._by_free, (view.free_kv_blocks, worker_id))

    def _forget(self, view: WorkerView) -> None:
        worker_id = view.info.worker_id
        self._count(view, -1)
        kind = _kind(view)
        self._kinds[kind] -= 1
        if not self._kinds[kind]:
            del self._kinds[kind]
            del self._of_kind[kind]
        place = self._places.pop(worker_id, None)
        if place is not None:
            del self._open[bisect.bisect_left(self._open, place)]
            free = view.free_kv_blocks, worker_id
            del self._by_free[bisect.bisect_left(self._by_free, free)]

    def _count(self, view: WorkerView, sign: int) -> None:
        if view.takes_work:
            self._recent += sign * view.recent
            self._taking += sign
        if not self._taking:
            self._recent = 0.0


def _kind(view: WorkerView) -> _Kind:
    info = view.info
    return (
        info.max_context_tokens,
        info.total_kv_blocks,
        info.block_size,
        info.max_concurrent_requests,
        info.embeddings,
        view.rules,
    )
