"""Registered workers."""

from collections.abc import Iterator

from weir_core.prefix_hash import PREFIX_GRANULARITY
from weir_scheduler.queues.lane_key import LaneKey
from weir_scheduler.workers.pool_prefixes import PoolPrefixes
from weir_scheduler.workers.worker import Worker


class Fleet:
    """Workers by id, and which of them serve a lane."""

    def __init__(self) -> None:
        self._workers: dict[str, Worker] = {}
        self._serving: dict[LaneKey, list[Worker]] = {}
        self._prefixes: dict[str, PoolPrefixes] = {}
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
        for worker in self._workers.values():
            worker.prefixes.join(None if worker.lost else self.prefixes(worker.info.model))

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
    if worker.lost or worker.info.dedicated_tenant_id != key.owner:
        return False
    return worker.info.serves(key.model, key.version)
