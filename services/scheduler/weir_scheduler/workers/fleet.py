"""Registered workers."""

import random
from collections.abc import Iterator

from weir_core.prefix_hash import PREFIX_GRANULARITY
from weir_scheduler.queues.lane_key import LaneKey
from weir_scheduler.workers.lane_index import LaneIndex
from weir_scheduler.workers.pool_prefixes import PoolPrefixes
from weir_scheduler.workers.recent_work import RecentWork
from weir_scheduler.workers.worker import Worker


class Fleet:
    """Workers by id, and which of them serve a lane."""

    def __init__(self) -> None:
        self._workers: dict[str, Worker] = {}
        self._serving: dict[LaneKey, list[Worker]] = {}
        self._prefixes: dict[str, PoolPrefixes] = {}
        self._indexes: dict[LaneKey, LaneIndex] = {}
        self._recent_work = RecentWork()
        self._rng = random.Random(0)
        self.prefix_granularity = PREFIX_GRANULARITY
        """Tokens of a prefix block."""

    def __iter__(self) -> Iterator[Worker]:
        return iter(list(self._workers.values()))

    def get(self, worker_id: str) -> Worker | None:
        """The worker of that id."""
        return self._workers.get(worker_id)

    def add(self, worker: Worker) -> None:
        """Adds or replaces a worker."""
        self._workers[worker.info.worker_id] = worker
        worker.on_change = self.touched
        self.changed()

    def remove(self, worker_id: str) -> None:
        """Forgets a worker, if it is known."""
        worker = self._workers.pop(worker_id, None)
        if worker is not None:
            worker.prefixes.join(None)
        self.changed()

    def prefixes(self, model: str) -> PoolPrefixes:
        """What the caches of a model's workers hold, together."""
        if model not in self._prefixes:
            self._prefixes[model] = PoolPrefixes(self.prefix_granularity)
        return self._prefixes[model]

    def changed(self) -> None:
        """A worker was lost or has come back, or registered anew."""
        self._serving.clear()
        self._indexes.clear()
        for worker in self._workers.values():
            worker.prefixes.join(None if worker.lost else self.prefixes(worker.info.model))

    def touched(self, worker: Worker) -> None:
        """What placement sees of a worker may have changed."""
        for index in self._indexes.values():
            index.touch(worker.info.worker_id)

    def index(self, key: LaneKey, now_us: int) -> LaneIndex:
        """The workers of a lane as a placement asks for them; refresh it before use."""
        index = self._indexes.get(key)
        if index is None:
            index = self._indexes[key] = LaneIndex(self.serving(key), now_us, self._rng)
        return index

    def work_weight(self, now_us: int) -> float:
        """What one token of work given now weighs; see `RecentWork`."""
        generation = self._recent_work.generation
        weight = self._recent_work.weight(now_us)
        if self._recent_work.generation != generation:
            for worker in self._workers.values():
                worker.forget_recent_work()
        return weight

    def serving(self, key: LaneKey) -> list[Worker]:
        """Workers of a lane that are not lost."""
        known = self._serving.get(key)
        if known is None:
            known = [worker for worker in self._workers.values() if _serves(worker, key)]
            self._serving[key] = known
        return known

    def owner_for(self, model: str, version: str, tenant_id: str) -> str:
        """The tenant if workers are dedicated to it for this model, else an empty string."""
        return tenant_id if self.serving(LaneKey(model, version, tenant_id)) else ""


def _serves(worker: Worker, key: LaneKey) -> bool:
    if worker.lost or (worker.owner, worker.pool) != (key.owner, key.pool):
        return False
    return worker.info.serves(key.model, key.version)
