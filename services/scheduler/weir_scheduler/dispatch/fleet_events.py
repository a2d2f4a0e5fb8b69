"""What workers say, and what their silence means."""

from collections.abc import Iterable

from weir_core.errors import Reason, WeirError
from weir_scheduler.dispatch.assignment import assign
from weir_scheduler.dispatch.attempt import Attempt
from weir_scheduler.dispatch.holdings import holding_of
from weir_scheduler.dispatch.rejections import never_arrived, worker_lost
from weir_scheduler.dispatch.releases import Releases
from weir_scheduler.dispatch.state import SchedulerState
from weir_scheduler.dispatch.timers import TimerKind
from weir_scheduler.dispatch.waiting_room import WaitingRoom
from weir_scheduler.workers.attempt_key import AttemptKey
from weir_scheduler.workers.worker import Worker
from weir_scheduler.workers.worker_info import WorkerInfo
from weir_scheduler.workers.worker_report import AttemptEnd, AttemptProgress, WorkerReport


class FleetEvents:
    """Registration, reports, loss, return and drain."""

    def __init__(self, state: SchedulerState, waiting: WaitingRoom, releases: Releases) -> None:
        self._state = state
        self._waiting = waiting
        self._releases = releases

    def register(self, info: WorkerInfo, running: Iterable[AttemptKey]) -> Worker:
        """A worker connects, for the first time or again."""
        state, now_us = self._state, self._state.now_us()
        self._replace_at_address(info)
        rules = state.rules.worker(info.model, info.profile)
        worker = state.fleet.get(info.worker_id)
        if worker is None:
            worker = Worker(info, rules, now_us)
        worker.connect(info, rules, now_us)
        assign(state, worker)
        state.fleet.add(worker)
        state.timers.cancel(TimerKind.FORGET_WORKER, info.worker_id)
        state.timers.set(TimerKind.SILENCE, info.worker_id, now_us + state.bounds.loss_us)
        self._reconcile(worker, list(running))
        self.offer(worker)
        return worker

    def report(self, worker_id: str, report: WorkerReport) -> None:
        """Takes a report. Raises WeirError NOT_FOUND for a worker that is not registered."""
        worker = self.known(worker_id)
        worker.last_frame_us = worker.last_report_us = self._state.now_us()
        worker.overdue = False
        worker.last_report_wall_us = self._state.clock.now_us()
        self._judge_step_age(worker, report)
        worker.reported_by(report)
        self._note_drain(worker)
        for progress in report.running:
            self._progress(worker, progress)
        for end in report.finished:
            self._ended(worker, end)
        self._settle_unnamed(worker, report)
        self.offer(worker)

    def heard(self, worker_id: str) -> None:
        """A frame without a report came: the worker is there."""
        self.known(worker_id).last_frame_us = self._state.now_us()

    def disconnected(self, worker_id: str) -> None:
        """A worker's stream has ended: no new work; lost unless it returns in time."""
        worker = self._state.fleet.get(worker_id)
        if worker is None or worker.lost:
            return
        worker.connected = False
        self._state.fleet.touched(worker)
        if worker.draining and not self._state.attempts.at_worker(worker_id):
            self._state.fleet.remove(worker_id)
            self._state.timers.cancel(TimerKind.SILENCE, worker_id)
        self._state.wake_model(worker.info.model)

    def drain(self, worker_id: str, *, cancel: bool) -> Worker:
        """Sends no more work to a worker, or again. Raises WeirError NOT_FOUND."""
        worker = self.known(worker_id)
        worker.drain_ordered = not cancel
        if cancel:
            worker.drain_reported = False
        self._note_drain(worker)
        self._state.outbox.drain(worker_id, cancel=cancel)
        self.offer(worker)
        return worker

    def silent(self, worker_id: str) -> None:
        """The silence timer of a worker is due: lost, or looked at again later."""
        worker = self._state.fleet.get(worker_id)
        if worker is None or worker.lost:
            return
        now_us, bounds = self._state.now_us(), self._state.bounds
        # Heartbeats alone are no sign of life of one that owes a report.
        heard_us = worker.last_report_us if worker.overdue else worker.last_frame_us
        due_us = max(heard_us + bounds.loss_us, worker.heard_until_us)
        if now_us - due_us > bounds.report_interval_us:
            # This process itself did not run: its workers' frames wait to be read first.
            due_us = worker.heard_until_us = now_us + 2 * bounds.report_interval_us
        if due_us > now_us:
            self._state.timers.set(TimerKind.SILENCE, worker_id, due_us)
            return
        seconds = bounds.loss_us / 1_000_000
        self.lose(worker, f"nothing was heard of it for {seconds:.1f} s")

    def lose(self, worker: Worker, why: str) -> None:
        """Moves what can move, ends the rest, and frees every place of a worker."""
        state, worker_id = self._state, worker.info.worker_id
        worker.mark_lost([attempt.key for attempt in state.attempts.at_worker(worker_id)], why)
        state.fleet.changed()
        state.timers.cancel(TimerKind.SILENCE, worker_id)
        forget_us = state.now_us() + state.bounds.lost_kept_us
        state.timers.set(TimerKind.FORGET_WORKER, worker_id, forget_us)
        for attempt in state.attempts.at_worker(worker_id):
            self._lose_attempt(attempt, worker_lost(worker_id, why))
        state.wake_model(worker.info.model)

    def offer(self, worker: Worker) -> None:
        """A worker may have room: its lanes, and what is stranded there, get another look."""
        self._state.fleet.touched(worker)
        self._state.wake_model(worker.info.model)
        if not worker.live(self._state.now_us()):
            return
        for key in list(self._state.to_pump):
            for record in self._waiting.stranded(key):
                if not record.awaits and worker.info.worker_id not in record.entry.excluded:
                    self._waiting.unstrand(record)

    def known(self, worker_id: str) -> Worker:
        """The worker of that id. Raises WeirError NOT_FOUND."""
        worker = self._state.fleet.get(worker_id)
        if worker is None:
            raise WeirError(Reason.NOT_FOUND, f"no worker {worker_id!r} is registered")
        return worker

    def _note_drain(self, worker: Worker) -> None:
        if not worker.draining:
            worker.drain_wall_us = 0
        elif not worker.drain_wall_us:
            worker.drain_wall_us = self._state.clock.now_us()

    def _replace_at_address(self, info: WorkerInfo) -> None:
        """Two processes cannot listen on one address: the older one is dead."""
        for other in list(self._state.fleet):
            worker_id = other.info.worker_id
            if other.info.address != info.address or worker_id == info.worker_id:
                continue
            if not other.lost:
                self.lose(other, f"worker {info.worker_id} took over its address")
            # It cannot come back, so nobody has to know what it was told to give up.
            self._state.timers.cancel(TimerKind.FORGET_WORKER, worker_id)
            self._state.fleet.remove(worker_id)

    def _reconcile(self, worker: Worker, running: list[AttemptKey]) -> None:
        """Aborts what was given up meanwhile, and repeats orders that may have been lost."""
        stale = [key for key in running if worker.gave_up(key)]
        aborting = [a.key for a in self._state.attempts.at_worker(worker.info.worker_id)
                    if a.aborting and a.key not in stale]  # fmt: skip
        if stale or aborting:
            why = "given up while the worker was away"
            self._state.outbox.abort(worker.info.worker_id, [*stale, *aborting], why)
        worker.assume_running(running)
        for attempt in self._state.attempts.at_worker(worker.info.worker_id):
            record = self._state.requests.get(attempt.key.request_id)
            if record is not None and record.attempt is attempt:
                holding = holding_of(record.entry, worker.info, attempt.uncached_estimate)
                worker.described(attempt.key, holding)
        if worker.drain_ordered:
            self._state.outbox.drain(worker.info.worker_id, cancel=False)

    def _progress(self, worker: Worker, progress: AttemptProgress) -> None:
        attempt = self._state.attempts.get(progress.key)
        if attempt is None or attempt.worker_id != worker.info.worker_id:
            if worker.gave_up(progress.key):
                self._state.outbox.abort(worker.info.worker_id, [progress.key], "given up")
            return
        attempt.named = attempt.reported = True
        self._state.timers.cancel(TimerKind.ARRIVAL, attempt.key)
        self._releases.progress(attempt, progress.usage)
        if progress.usage.completion_tokens:
            self._releases.success(attempt)

    def _ended(self, worker: Worker, end: AttemptEnd) -> None:
        attempt = self._state.attempts.get(end.key)
        if attempt is None or attempt.worker_id != worker.info.worker_id:
            return
        if end.failed:
            self._releases.fault(attempt)
        elif end.usage.completion_tokens:
            self._releases.success(attempt)
        self._releases.end(attempt, end.usage)

    def _settle_unnamed(self, worker: Worker, report: WorkerReport) -> None:
        """Attempts that the report does not name: gone without a word, or never arrived."""
        named = {progress.key for progress in report.running}
        for attempt in self._state.attempts.at_worker(worker.info.worker_id):
            if attempt.key in named:
                continue
            # A report made before the worker had it says nothing, though its first token came.
            if attempt.reported or (attempt.named and self._cannot_start(attempt, report)):
                self._releases.end(attempt, attempt.usage)
            elif not attempt.named and self._cannot_start(attempt, report):
                arrival_us = self._state.bounds.arrival_us
                cause = never_arrived(worker.info.worker_id, arrival_us)
                self._lose_attempt(attempt, cause, exclude=False)

    def _cannot_start(self, attempt: Attempt, report: WorkerReport) -> bool:
        """Whether the grant had expired, by the worker's own clock, when the report was made.

        Not when it was received: a report may have waited here longer than a grant lives.
        """
        if report.load.report_time_us:
            return report.load.report_time_us >= attempt.expire_wall_us
        bounds = self._state.bounds
        return self._state.now_us() >= attempt.arrival_deadline_us + bounds.arrival_slack_us

    def _lose_attempt(self, attempt: Attempt, cause: WeirError, *, exclude: bool = True) -> None:
        record = self._state.requests.get(attempt.key.request_id)
        current = record is not None and record.attempt is attempt
        self._releases.end(attempt, attempt.usage if attempt.streamed else None)
        if record is None or not current:
            return
        if attempt.streamed:
            self._releases.lose(record, cause)
        else:
            self._releases.requeue(record, cause, exclude=exclude)

    def _judge_step_age(self, worker: Worker, report: WorkerReport) -> None:
        bounds, age_us = self._state.bounds, report.load.step_age_us
        worker.frozen = age_us >= bounds.step_suspect_us
        if age_us >= bounds.step_loss_us and not worker.lost:
            self.lose(worker, f"its engine has made no step for {age_us / 1_000_000:.1f} s")
        elif worker.lost and not worker.frozen:
            worker.lost = False
            self._state.timers.cancel(TimerKind.FORGET_WORKER, worker.info.worker_id)
            self._state.timers.set(
                TimerKind.SILENCE, worker.info.worker_id, worker.last_frame_us + bounds.loss_us
            )
            self._state.fleet.changed()
