"""Reads the signals of a pool from the state of the scheduler."""

from collections.abc import Iterable, Sequence

from weir_core.errors import WeirError
from weir_scheduler.dispatch.state import SchedulerState
from weir_scheduler.scaling.pool_load import WAIT_WINDOW_US
from weir_scheduler.scaling.queue_load import QueueLoad
from weir_scheduler.scaling.scaling_key import ScalingKey, key_of_worker
from weir_scheduler.scaling.signals import ScalingSignals
from weir_scheduler.workers.worker import Worker


class SignalReader:
    """Changes nothing; O(workers + tenants that wait) for a reading of everything.

    Args:
        state: of the scheduler.
        load: what waits.
    """

    def __init__(self, state: SchedulerState, load: QueueLoad) -> None:
        self._state = state
        self._load = load
        self._began_us = state.now_us()

    def read_all(self, models: Iterable[str] = ()) -> dict[ScalingKey, ScalingSignals]:
        """Every pool that has a worker or for which something has waited, and those of `models`."""
        for key in self._load.seen:
            if not self._is_there(key):
                self._load.forget(key)
        workers = self._by_key()
        keys = {*workers, *self._load.seen}
        for model in models:
            keys.update(ScalingKey(model, name) for name in self._pools_of(model))
        return {key: self._read(key, workers.get(key, ())) for key in sorted(keys)}

    def _by_key(self) -> dict[ScalingKey, list[Worker]]:
        found: dict[ScalingKey, list[Worker]] = {}
        for worker in self._state.fleet:
            if worker.lost:
                continue
            try:
                key = key_of_worker(self._state.rules, worker.info)
            except WeirError:  # its model is not in the directory
                continue
            found.setdefault(key, []).append(worker)
        return found

    def _read(self, key: ScalingKey, workers: Sequence[Worker]) -> ScalingSignals:
        state, load = self._state, self._load.of(key)
        now_us = state.now_us()
        live = [worker for worker in workers if worker.live(now_us)]
        draining = sum(worker.draining for worker in workers)
        waiting = load.waiting(self._at_cap)
        views = [worker.view(now_us) for worker in live]
        return ScalingSignals(
            measured_us=now_us,
            known=self._known(key, silent=len(workers) - draining - len(live), live=len(live)),
            workers=len(live),
            draining=draining,
            queued=waiting.queued,
            queued_tokens=waiting.tokens,
            capped=waiting.capped,
            queue_p95_us=load.p95_us(now_us),
            wait_window_us=WAIT_WINDOW_US,
            oldest_wait_us=0 if waiting.oldest_us is None else max(0, now_us - waiting.oldest_us),
            running=sum(view.places for view in views),
            tokens_in_flight=sum(view.cost for view in views),
            slots=sum(min(view.rules.max_batch_size, view.max_requests) for view in views),
            token_slots=sum(view.rules.max_batch_tokens for view in views),
            kv_use=_kv_use(live),
            predicted_wait_us=load.predicted_wait_us(waiting.queued, now_us),
            startup_us=max((worker.info.start_us for worker in workers), default=0),
        )

    def _at_cap(self, tenant_id: str) -> bool:
        """Most tenants that wait run nothing, and cost no more than this look."""
        return self._state.attempts.running_of(tenant_id) > 0 and self._state.at_cap(tenant_id)

    def _known(self, key: ScalingKey, *, silent: int, live: int) -> bool:
        """Whether the reading says something about the load.

        Not just after the start or a takeover, when workers and gateways have yet to come, nor
        while every worker that should work is silent or frozen.
        """
        state = self._state
        began_us = max(self._began_us, state.hold_until_us)
        if state.closed or state.now_us() - began_us < state.bounds.loss_us:
            return False
        return self._is_there(key) and (live > 0 or not silent)

    def _is_there(self, key: ScalingKey) -> bool:
        return key.pool in self._pools_of(key.model)

    def _pools_of(self, model: str) -> set[str]:
        try:
            first = self._state.rules.pool(model)
        except WeirError:
            return set()
        return {pool.name for pool in (first, *first.further)}


def _kv_use(live: Sequence[Worker]) -> float | None:
    """Held by requests: what is cached or pinned yields to them."""
    loads = [worker.load for worker in live if worker.info.total_kv_blocks]
    total = sum(worker.info.total_kv_blocks for worker in live)
    if not loads or not total:
        return None
    return max(0, sum(load.held_kv_blocks - load.pinned_kv_blocks for load in loads)) / total
