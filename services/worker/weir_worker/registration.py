"""The worker's stream to the scheduler: registration, reports, commands."""

import asyncio
import dataclasses
from collections.abc import Sequence

from weir.common.v1.lifecycle_pb2 import TerminalRecord
from weir.scheduler.v1.scheduler_service_pb2 import ConnectWorkerRequest, ConnectWorkerResponse
from weir.scheduler.v1.scheduler_service_pb2_grpc import SchedulerServiceStub
from weir.scheduler.v1.worker_report_pb2 import (
    AbortAttempts,
    AttemptProgress,
    WorkerRegistered,
    WorkerReport,
)
from weir.worker.v1.worker_service_pb2 import GenerationSpec
from weir_core.errors import Reason, WeirError
from weir_core.rpc.framed import FramedOptions, FramedStream, FramedWriter
from weir_core.rpc.leader_channels import LeaderChannels
from weir_core.rpc.leader_epoch import LeaderEpoch
from weir_core.tasks import end_task
from weir_core.telemetry.logs import get_logger
from weir_worker.abort_cause import AbortCause
from weir_worker.attempts import attempt_of
from weir_worker.ended_attempts import EndedAttempts
from weir_worker.engine.events import Terminal
from weir_worker.running_attempt import RunningAttempt
from weir_worker.worker import Worker

DEFAULT_INTERVAL_S = 1.0
# Starts and ends within this time share a report.
COALESCE_S = 0.02

_log = get_logger(__name__)


class SchedulerLink:
    """Keeps the worker registered and the scheduler informed.

    The worker serves its streams whether or not the scheduler is there; after a loss it
    registers again, with everything that runs.

    Args:
        schedulers: where they are, of which one is active.
        leader: newest term of an active scheduler; an older one is not registered with.
        worker: registers, reports and obeys.
        ended: ends to report.
        options: heartbeat bounds.
    """

    def __init__(
        self,
        schedulers: LeaderChannels,
        leader: LeaderEpoch,
        worker: Worker,
        ended: EndedAttempts,
        options: FramedOptions,
    ) -> None:
        self._schedulers = schedulers
        self._leader = leader
        self._worker = worker
        self._attempts = worker.attempts
        self._ended = ended
        self._interval_s = DEFAULT_INTERVAL_S
        self._registered = False
        self._changed = asyncio.Event()
        self._reporter: asyncio.Task[None] | None = None
        self._stream: FramedStream[
            ConnectWorkerRequest, ConnectWorkerRequest, ConnectWorkerResponse
        ] = FramedStream(
            lambda: SchedulerServiceStub(schedulers.current).ConnectWorker(),
            coalesce=_only,
            ping=ConnectWorkerRequest,
            on_frame=self._on_frame,
            on_connect=self._on_connect,
            on_lost=self._on_lost,
            name="scheduler",
            unavailable_as=Reason.SCHEDULER_UNAVAILABLE,
            # A frame holds one message.
            options=dataclasses.replace(options, max_frame_items=1),
            backoff=schedulers.backoff(),
        )

    @property
    def registered(self) -> bool:
        """Whether the scheduler has answered the registration of this connection."""
        return self._registered

    def start(self) -> None:
        """Starts to connect and to report. Call it once, inside the event loop."""
        self._stream.start()
        self._reporter = asyncio.create_task(self._report_for_ever(), name="worker-reports")

    async def stop(self) -> None:
        """Sends a last report, if it can, and ends the stream."""
        if self._reporter is None:
            return
        await end_task(self._reporter)
        self._report()
        await self._stream.stop("the worker is stopping")

    def report_soon(self) -> None:
        """Something changed: a report goes out within `COALESCE_S`."""
        self._changed.set()

    def attempt_started(self, attempt: RunningAttempt) -> None:
        """See `AttemptObserver`."""
        self._changed.set()

    def attempt_ended(
        self, attempt: RunningAttempt, terminal: Terminal, record: TerminalRecord
    ) -> None:
        """See `AttemptObserver`."""
        self._ended.add(record)
        self._changed.set()

    def attempt_refused(
        self, spec: GenerationSpec, record: TerminalRecord, *, recorded: bool
    ) -> None:
        """See `AttemptObserver`. The scheduler has counted it here since it granted it."""
        if recorded:
            self._ended.add(record)
            self._changed.set()

    async def _report_for_ever(self) -> None:
        while True:
            try:
                async with asyncio.timeout(self._interval_s):
                    await self._changed.wait()
                await asyncio.sleep(COALESCE_S)
            except TimeoutError:
                pass
            self._changed.clear()
            try:
                self._report()
            except Exception as error:
                # Without reports the scheduler would give the worker up as lost.
                _log.error("report_failed", exc_info=error)

    def _report(self) -> None:
        if not self._registered:
            return
        report = WorkerReport(
            load=self._worker.load.read(),
            running=[_progress_of(attempt) for attempt in self._attempts.running()],
            finished=self._ended.take(),
            draining=self._attempts.draining,
        )
        added, removed = self._worker.prefixes.take()
        report.prefix_blocks_added.extend(added)
        report.prefix_blocks_removed.extend(removed)
        if self._worker.prefixes.pending:
            self._changed.set()
        try:
            self._stream.put_control(ConnectWorkerRequest(report=report))
        except WeirError:
            # Lost between two turns of the loop; the ends are told again after reconnection.
            self._registered = False

    def _on_connect(self, writer: FramedWriter[ConnectWorkerRequest, ConnectWorkerRequest]) -> None:
        self._ended.tell_again()
        self._worker.prefixes.tell_again()
        running = [attempt_of(attempt.key) for attempt in self._attempts.running()]
        registration = self._worker.identity.registration(running)
        writer.put_control(ConnectWorkerRequest(registration=registration))

    def _on_lost(self, error: WeirError) -> None:
        self._schedulers.lost(error)
        self._registered = False

    def _on_frame(self, frame: ConnectWorkerResponse) -> None:
        match frame.WhichOneof("command"):
            case "registered":
                self._on_registered(frame.registered)
            case "abort":
                self._abort(frame.abort)
            case "drain" if frame.drain.cancel:
                self._worker.drain.cancel()
            case "drain":
                self._worker.drain.begin("the scheduler asked for it", leave=True)
            case "parameters":
                self._worker.set_parameters(frame.parameters)

    def _on_registered(self, answer: WorkerRegistered) -> None:
        self._leader.check(answer.leader_epoch, "the registration")
        self._schedulers.answered()
        if answer.HasField("lease"):
            self._stream.expect_frames(answer.lease.ToTimedelta().total_seconds())
        self._interval_s = answer.report_interval.ToTimedelta().total_seconds() or (
            DEFAULT_INTERVAL_S
        )
        self._registered = True
        _log.info(
            "registered", worker_id=self._worker.identity.worker_id, interval_s=self._interval_s
        )
        if answer.HasField("parameters"):
            self._worker.set_parameters(answer.parameters)
        self._report()

    def _abort(self, command: AbortAttempts) -> None:
        cause = AbortCause(Reason.CANCELLED, command.reason or "aborted by the scheduler")
        for attempt in command.attempts:
            key = (attempt.request_id, attempt.number)
            if not self._attempts.abort(key, cause):
                self._ended.add_unknown(key)
        self._changed.set()


def _only(items: Sequence[ConnectWorkerRequest]) -> ConnectWorkerRequest:
    (item,) = items
    return item


def _progress_of(attempt: RunningAttempt) -> AttemptProgress:
    return AttemptProgress(
        attempt=attempt_of(attempt.key),
        computed_prompt_tokens=attempt.computed_prompt_tokens - attempt.cached_prompt_tokens,
        cached_prompt_tokens=attempt.cached_prompt_tokens,
        completion_tokens=attempt.completion_tokens,
        kv_blocks=attempt.kv_blocks,
    )
