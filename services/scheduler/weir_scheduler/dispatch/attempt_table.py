"""Every attempt that takes up a place on a worker."""

from collections.abc import Iterator

from weir_scheduler.dispatch.attempt import Attempt
from weir_scheduler.queues.lane_key import LaneKey
from weir_scheduler.workers.attempt_key import AttemptKey


class AttemptTable:
    """Attempts by key, by request, by worker, by lane until they start, and counted by tenant."""

    def __init__(self) -> None:
        self._attempts: dict[AttemptKey, Attempt] = {}
        self._by_worker: dict[str, dict[AttemptKey, Attempt]] = {}
        self._by_tenant: dict[str, int] = {}
        self._by_request: dict[str, set[int]] = {}
        self._unstarted: dict[LaneKey, dict[AttemptKey, Attempt]] = {}

    def __len__(self) -> int:
        return len(self._attempts)

    def __contains__(self, key: object) -> bool:
        return key in self._attempts

    def __iter__(self) -> Iterator[Attempt]:
        return iter(self._attempts.values())

    def add(self, attempt: Attempt) -> None:
        """Adds an attempt. Raises ValueError when its key is taken."""
        if attempt.key in self._attempts:
            raise ValueError(f"attempt {attempt.key} exists already")
        self._attempts[attempt.key] = attempt
        self._by_worker.setdefault(attempt.worker_id, {})[attempt.key] = attempt
        self._by_request.setdefault(attempt.key.request_id, set()).add(attempt.key.number)
        self._by_tenant[attempt.tenant_id] = self.running_of(attempt.tenant_id) + 1
        self._unstarted.setdefault(attempt.lane_key, {})[attempt.key] = attempt

    def remove(self, key: AttemptKey) -> Attempt | None:
        """Takes an attempt out; None when it is gone already."""
        attempt = self._attempts.pop(key, None)
        if attempt is None:
            return None
        del self._by_worker[attempt.worker_id][key]
        if not self._by_worker[attempt.worker_id]:
            del self._by_worker[attempt.worker_id]
        self._by_request[key.request_id].discard(key.number)
        if not self._by_request[key.request_id]:
            del self._by_request[key.request_id]
        self._forget_unstarted(attempt)
        self._by_tenant[attempt.tenant_id] -= 1
        if not self._by_tenant[attempt.tenant_id]:
            del self._by_tenant[attempt.tenant_id]
        return attempt

    def get(self, key: AttemptKey) -> Attempt | None:
        """The attempt of that key."""
        return self._attempts.get(key)

    def at_worker(self, worker_id: str) -> list[Attempt]:
        """Attempts on a worker."""
        return list(self._by_worker.get(worker_id, {}).values())

    def started(self, attempt: Attempt) -> None:
        """The first token of an attempt is known to be sampled. Idempotent."""
        attempt.started = True
        self._forget_unstarted(attempt)

    def unstarted(self, key: LaneKey) -> list[Attempt]:
        """Attempts of a lane that have sampled nothing yet, in the order of their dispatch."""
        return list(self._unstarted.get(key, {}).values())

    def highest_of(self, request_id: str) -> int:
        """The highest attempt number of a request that still has a place; 0 for none."""
        return max(self._by_request.get(request_id, ()), default=0)

    def running_of(self, tenant_id: str) -> int:
        """Attempts of a tenant, over all workers."""
        return self._by_tenant.get(tenant_id, 0)

    def _forget_unstarted(self, attempt: Attempt) -> None:
        of_lane = self._unstarted.get(attempt.lane_key)
        if of_lane is None or of_lane.pop(attempt.key, None) is None:
            return
        if not of_lane:
            del self._unstarted[attempt.lane_key]
