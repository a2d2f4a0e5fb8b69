"""When a simulated worker reports, and what."""

from typing import Protocol

from weir_scheduler.workers.attempt_key import AttemptKey
from weir_scheduler.workers.worker_report import (
    AttemptEnd,
    AttemptProgress,
    WorkerLoad,
    WorkerReport,
)
from weir_sim.core.stage import Stage
from weir_sim.fleet.engine import Engine
from weir_sim.fleet.kv_cache import KvCache
from weir_sim.fleet.sequence import SimSequence
from weir_sim.fleet.split_engine import SplitEngine, SplitMemory

_HEARTBEAT_US = 1_000_000


class Reporting(Protocol):
    """What a reporter reads of its worker."""

    worker_id: str
    sequences: dict[AttemptKey, SimSequence]
    finished: list[AttemptEnd]
    draining: bool
    kv: KvCache | SplitMemory
    engine: Engine | SplitEngine


class Reporter:
    """Makes a report every interval and delivers it after the delay (signal freshness).

    A worker in which nothing happens sends heartbeats instead: a report would say the same.
    """

    def __init__(self, worker: Reporting, stage: Stage) -> None:
        self._worker = worker
        self._stage = stage
        setup = stage.setup
        self._every_step = not setup.report_interval_s
        self._interval_us = round(setup.report_interval_s * 1e6) or _HEARTBEAT_US
        coalesce_s = 0.0 if self._every_step else setup.report_coalesce_s
        self._coalesce_us = None if coalesce_s is None else round(coalesce_s * 1e6)
        self._delay_us = round(stage.setup.report_delay_s * 1e6)
        self._life = 0
        self._resting = False
        self._due = False

    def start(self) -> None:
        """The worker has registered: it reports at once, and tells its whole cache."""
        self._life += 1
        self._resting = False
        self._worker.kv.tell_all()
        self._tick(self._life)

    def stop(self) -> None:
        """The worker is gone; reports under way still arrive."""
        self._life += 1

    def changed(self) -> None:
        """An attempt has started or ended, or the worker drains: reports are due again."""
        if self._resting:
            self._resting = False
            self._set_tick()
        if self._coalesce_us is not None:
            self._report_within(self._coalesce_us)

    def stepped(self) -> None:
        """A step has ended; with an interval of 0 that is reported."""
        if self._every_step:
            self._report_within(0)

    def _report_within(self, us: int) -> None:
        """Once, after all that happens until then."""
        if not self._due:
            self._due = True
            life = self._life
            self._stage.events.at(self._stage.now_us + us, lambda: self._report_now(life))

    def _report_now(self, life: int) -> None:
        self._due = False
        if life == self._life:
            self._send(self._make())

    def _set_tick(self) -> None:
        life = self._life
        at_us = self._stage.now_us + self._interval_us
        self._stage.events.at(at_us, lambda: self._tick(life))

    def _tick(self, life: int) -> None:
        if life != self._life or self._resting:
            return
        worker = self._worker
        quiet = not (worker.sequences or worker.finished or worker.kv.changed)
        self._send(self._make())
        if quiet:
            self._resting = True
            self._heartbeat(life)
        else:
            self._set_tick()

    def _heartbeat(self, life: int) -> None:
        if life != self._life or not self._resting:
            return
        self._stage.tell().worker_heard(self._worker.worker_id)
        self._stage.events.at(self._stage.now_us + _HEARTBEAT_US, lambda: self._heartbeat(life))

    def _send(self, report: WorkerReport) -> None:
        life = self._life
        at_us = self._stage.now_us + self._delay_us
        self._stage.events.at(at_us, lambda: self._deliver(report, life))

    def _deliver(self, report: WorkerReport, life: int) -> None:
        # The scheduler hears nothing more over a stream that has ended.
        if life == self._life:
            if not self._stage.setup.local_increments:
                self._stage.last_reports.reported(self._worker.worker_id, report)
            self._stage.tell().worker_report(self._worker.worker_id, report)

    def _make(self) -> WorkerReport:
        worker, engine = self._worker, self._worker.engine
        engine.sync()
        added, removed = worker.kv.take_changes()
        finished = tuple(worker.finished)
        worker.finished.clear()
        return WorkerReport(
            load=WorkerLoad(
                free_kv_blocks=worker.kv.free,
                cached_kv_blocks=worker.kv.cached,
                held_kv_blocks=worker.kv.held,
                running_requests=engine.running_requests,
                waiting_requests=engine.waiting_requests,
                pending_prefill_tokens=engine.pending_prefill_tokens(),
                step_age_us=engine.step_age_us(),
                report_time_us=self._stage.clock.now_us(),
                preemptions_total=engine.preemptions,
            ),
            running=tuple(
                AttemptProgress(key, sequence.usage(), sequence.blocks)
                for key, sequence in worker.sequences.items()
            ),
            finished=finished,
            prefix_blocks_added=added,
            prefix_blocks_removed=removed,
            draining=worker.draining,
        )
