"""One request from its reservation to its end: a state machine without I/O of its own.

Single writer: everything happens in callbacks on the event loop, in the order in which the
scheduler, the workers, the client and the timers speak. It acts through ports that queue
frames and never wait. The end comes exactly once, as the result of `ended`.

What was streamed cannot be taken back: until the first piece a failed attempt is tried again
on another worker; afterwards it is the end. A client that does not stream has been given
nothing until the end.
"""

import asyncio
from collections.abc import Callable

from weir.common.v1.lifecycle_pb2 import Attempt, Outcome, TerminalRecord, TraceContext
from weir.common.v1.sampling_pb2 import FinishReason
from weir.scheduler.v1.scheduler_service_pb2 import (
    AttemptLost,
    Dispatched,
    Queued,
    Rejected,
    Requeued,
)
from weir.worker.v1.worker_service_pb2 import AttemptDelta
from weir_core.clock import Clock
from weir_core.errors import Reason
from weir_core.errors.faults import is_worker_fault
from weir_core.telemetry.traceparent import child_of
from weir_gateway.flow.delivery import Delivery, Waiting
from weir_gateway.flow.ending import (
    Ending,
    StopCause,
    cause_of,
    conclude,
    deadline_passed,
    failed,
    no_scheduler,
    rejected,
    too_slow,
)
from weir_gateway.flow.keeping import Keeping
from weir_gateway.flow.live_state import LiveBounds, State
from weir_gateway.flow.messages import piece_of, start_message
from weir_gateway.flow.patience import Patience
from weir_gateway.flow.ports import CallLater, SchedulerPort, WorkerPort
from weir_gateway.flow.queue_place import QueuePlace
from weir_gateway.flow.request_facts import RequestFacts
from weir_gateway.flow.reservation import Reservation
from weir_gateway.flow.trail import Moment, Trail
from weir_gateway.flow.verdict import Verdict, judge
from weir_gateway.flow.wire_reason import from_wire
from weir_gateway.intake.prepared_request import PreparedRequest

_MAX_UNREAD = 1_000_000


class LiveRequest:
    """See the module.

    Args:
        trail: gets what happens to it; its id is the request's, and the client's.
        prepared: what to run.
        scheduler, workers: the ports.
        clock: wall time for the record.
        call_later: timers.
        deadline_s: after which it is stopped.
        trace: context that frames carry.
        bounds: how long others are waited for.
        keeping: says who charges the answer; None for the front desk.
    """

    def __init__(
        self,
        trail: Trail,
        prepared: PreparedRequest,
        *,
        scheduler: SchedulerPort,
        workers: WorkerPort,
        clock: Clock,
        call_later: CallLater,
        deadline_s: float,
        trace: TraceContext,
        bounds: LiveBounds,
        keeping: Keeping | None = None,
    ) -> None:
        self.id = trail.request_id
        self.trail = trail
        self.prepared = prepared
        self.keeping = keeping
        self.trace = trace
        self.facts = RequestFacts(excluded=set(prepared.avoided_workers))
        self.delivery: Delivery[Ending] = Delivery(
            whole=not prepared.streams, max_characters=_MAX_UNREAD
        )
        self.ended: asyncio.Future[Ending] = asyncio.get_running_loop().create_future()
        self.state = State.RESERVING
        self.extend_at = 0
        """Output tokens at which `on_extend_due` is called; 0 for never."""
        self.on_extend_due: Callable[[], None] = lambda: None
        self.on_placed: Callable[[], None] = lambda: None
        """Called when a worker is found."""
        self._scheduler = scheduler
        self._workers = workers
        self._clock = clock
        self._bounds = bounds
        self._deadline_us = clock.now_us() + round(deadline_s * 1_000_000)
        self._stop: StopCause | None = None
        # The newest reason of its wait, to note changes alone.
        self._waits_for = 0
        self._terminal: TerminalRecord | None = None
        self._patience = Patience(call_later)
        self._place = QueuePlace(
            self.id,
            prepared,
            self.facts,
            scheduler=scheduler,
            clock=clock,
            deadline_us=self._deadline_us,
            trace=trace,
        )
        self._deadline = call_later(deadline_s, lambda: self.stop(deadline_passed(deadline_s)))

    # The account

    def on_reserved(self, reservation: Reservation) -> None:
        """It may run: queue it, unless it was stopped meanwhile."""
        self.facts.reserve(reservation, self._clock.now_us())
        self.trail.reservation_id = reservation.id
        self.trail.note(Moment.RESERVED, tokens=self.facts.reserved_tokens)
        if self._stop is not None:
            self._end()
            return
        self._enqueue()

    def on_refused(self) -> None:
        """It was never accepted."""
        self.state = State.ENDED
        self._deadline.cancel()

    # The scheduler

    def on_queued(self, event: Queued) -> None:
        """It waits."""
        if self.state is State.QUEUED:
            self._note_wait(event.reason, event.position)
            self.delivery.note(Waiting(event.position, event.reason))

    def on_dispatched(self, event: Dispatched) -> None:
        """It has a worker."""
        if event.attempt.number <= self.facts.attempt:
            return
        if self.state is State.STARTED:
            self._leave_attempt(Reason.STALE_ATTEMPT, abort=True)
        if self.state is State.QUEUED:
            self._start(event)
        elif self.state is State.STREAMING:
            self._lose(Reason.WORKER_LOST, "the scheduler moved the request while it streamed")

    def on_requeued(self, event: Requeued) -> None:
        """The attempt was lost and the request is queued again; or its place is asked for."""
        if event.HasField("attempt"):
            self._give_place(event.attempt.number)
            return
        reason = from_wire(event.error_reason, Reason.WORKER_LOST)
        if self.state is State.STARTED:
            self._leave_attempt(reason, abort=True)
        if self.state is State.QUEUED:
            self.delivery.note(Waiting(event.position, 0))
        elif self.state is State.STREAMING:
            self._lose(reason, "the worker was lost while it answered; send the request again")

    def on_rejected(self, event: Rejected) -> None:
        """It will not run."""
        if self.state not in (State.QUEUED, State.STARTED):
            return
        self._stop = rejected(event)
        if self.state is State.STARTED:
            self._leave_attempt(self._stop.error.reason, abort=True)
        self._note_stop(self._stop)
        self._end()

    def on_attempt_lost(self, event: AttemptLost) -> None:
        """The scheduler has lost the worker that runs it."""
        if event.attempt.number != self.facts.attempt:
            return
        reason = from_wire(event.error_reason, Reason.WORKER_LOST)
        if self.state is State.STARTED:
            # It has forgotten the request, of which nothing was streamed here.
            self._leave_attempt(reason, abort=True)
            self._enqueue()
        elif self.state is State.STREAMING:
            self._lose(reason, event.message or "the worker was lost while it answered")

    def on_scheduler_lost(self) -> None:
        """What waits in the queue waits for another scheduler now, for a while."""
        if self.state is State.QUEUED:
            self._await_scheduler()

    def on_scheduler_connected(self) -> None:
        """There is a scheduler (again): it may know nothing of what waits and runs here."""
        if self._place.known:
            return
        if self.state is State.QUEUED:
            self._enqueue()
        elif self.state in (State.STARTED, State.STREAMING):
            self._place.tell_running(self.attempt, streams=self.state is State.STREAMING)

    # The worker

    def on_delta(self, number: int, delta: AttemptDelta) -> None:
        """New tokens; those of an attempt that is over are dropped."""
        facts = self.facts
        if number != facts.attempt or self.state in (State.QUEUED, State.ENDED):
            return
        facts.output_tokens = delta.completion_tokens
        if self.state is State.STARTED:
            self._first_token(delta)
        if self.state is State.STOPPING and self._stop and not self._stop.leaves_reader:
            return
        if not self.delivery.push(piece_of(delta, self.prepared)):
            self.stop(too_slow(_MAX_UNREAD))
        elif self.extend_at and facts.output_tokens >= self.extend_at:
            self.on_extend_due()

    def on_terminal(self, record: TerminalRecord) -> None:
        """The end of an attempt, counted by its worker."""
        if record.attempt.number != self.facts.attempt:
            return
        if self.state is State.STOPPING:
            self._terminal = record
            self._end()
        elif self.state in (State.STARTED, State.STREAMING):
            self._terminal = record
            self._judge(record)

    def on_worker_lost(self, number: int, *, reached: bool, message: str) -> None:
        """The stream that carries its attempt broke."""
        if number != self.facts.attempt:
            return
        if self.state is State.STARTED:
            self.facts.sent = reached
            self._try_again(Reason.WORKER_LOST, worker_fault=True)
        elif self.state in (State.STREAMING, State.STOPPING):
            self._lose(Reason.WORKER_LOST, message)

    # The client and the timers

    def stop(self, cause: StopCause) -> None:
        """Ends the request before its time; later causes change nothing."""
        if self._stop is not None or self.state is State.ENDED:
            return
        self._stop = cause
        self._note_stop(cause)
        if self.state is State.RESERVING:
            return
        self._scheduler.withdraw(self.id)
        if self.state is State.QUEUED:
            self._end()
            return
        self.state = State.STOPPING
        self._workers.abort(self.facts.worker_id, self.attempt, cause.outcome)
        self._patience.until(self._bounds.abort_s, self._end)

    def end_now(self) -> None:
        """Ends a stopped request without the record of its worker."""
        if self.state is State.STOPPING:
            self._end()

    @property
    def attempt(self) -> Attempt:
        """The newest attempt."""
        return Attempt(request_id=self.id, number=self.facts.attempt)

    @property
    def model_version(self) -> str:
        """The version that serves it; before that is known the one that was chosen."""
        return self.facts.model_version or self.prepared.subject.model_version

    def _enqueue(self) -> None:
        self.state = State.QUEUED
        self.trail.note(Moment.ENQUEUED)
        self._take_place()

    def _take_place(self) -> None:
        self._patience.end()
        if not self._place.take():
            self._await_scheduler()

    def _await_scheduler(self) -> None:
        seconds = self._bounds.scheduler_s
        self._patience.until(seconds, lambda: self.stop(no_scheduler(seconds)))

    def _start(self, event: Dispatched) -> None:
        self._patience.end()
        self._terminal = None
        self.facts.begin(event)
        self.trail.note(
            Moment.DISPATCHED,
            worker_id=event.worker_id,
            attempt=event.attempt.number,
            queue_us=event.queue_time.ToMicroseconds(),
        )
        self.state = State.STARTED
        message = start_message(
            self.prepared,
            self.facts,
            event,
            deadline_us=self._deadline_us,
            trace=self._trace_of(event.attempt.number),
        )
        self._workers.start(event.worker_id, event.worker_address, message, self)
        self.on_placed()

    def _first_token(self, delta: AttemptDelta) -> None:
        self.facts.cached_tokens = delta.cached_prompt_tokens
        self.facts.gpu_id = self._workers.gpu_id(self.facts.worker_id)
        if not self.facts.first_token_us:
            self.facts.first_token_us = self._clock.now_us()
            self.trail.note(Moment.FIRST_TOKEN, tokens=delta.cached_prompt_tokens)
        if not self.delivery.whole:
            self.state = State.STREAMING
            self._scheduler.first_token(self.attempt)

    def _judge(self, record: TerminalRecord) -> None:
        verdict = judge(record, streamed=self.state is State.STREAMING)
        if verdict is Verdict.ANSWERED:
            self._end()
        elif verdict is Verdict.TRY_AGAIN:
            reason = from_wire(record.error_reason, Reason.WORKER_LOST)
            failed = record.finish_reason == FinishReason.FINISH_REASON_ERROR
            self._try_again(reason, worker_fault=failed and is_worker_fault(reason))
        else:
            reason = from_wire(record.error_reason, Reason.ENGINE_FAILED)
            field = self.prepared.field_of(record.error_field)
            self._stop = cause_of(reason, record.error_message, field)
            self._note_stop(self._stop)
            self._end()

    def _leave_attempt(self, reason: Reason, *, abort: bool) -> None:
        """Back to the queue; what the old attempt still says is not heard."""
        left = Moment.PREEMPTED if reason is Reason.PREEMPTED else Moment.REQUEUED
        worker_id = self.facts.worker_id
        self.trail.note(left, error_reason=reason, attempt=self.facts.attempt, worker_id=worker_id)
        self._waits_for = 0
        if abort:
            self._workers.abort(self.facts.worker_id, self.attempt, Outcome.OUTCOME_ERROR)
        self._workers.forget(self.facts.worker_id, self.attempt)
        self.delivery.reset()
        self.facts.output_tokens = 0
        self.facts.waiting_since_us = self._clock.now_us()
        self.state = State.QUEUED

    def _give_place(self, number: int) -> None:
        """A more urgent request needs the place; what has sampled a token keeps it."""
        started = self.state is State.STARTED and number == self.facts.attempt
        if not started or self.facts.output_tokens:
            return
        attempt = self.attempt
        self.facts.preemptions += 1
        self._leave_attempt(Reason.PREEMPTED, abort=True)
        self._take_place_again(attempt, Reason.PREEMPTED, worker_fault=False)

    def _try_again(self, reason: Reason, *, worker_fault: bool) -> None:
        attempt = self.attempt
        self._leave_attempt(reason, abort=False)
        if worker_fault:
            self.facts.excluded.add(self.facts.worker_id)
        self._take_place_again(attempt, reason, worker_fault=worker_fault)

    def _take_place_again(self, left: Attempt, reason: Reason, *, worker_fault: bool) -> None:
        """Back to the queue from an attempt that is given up."""
        if self._place.known:
            self._scheduler.attempt_failed(left, reason, worker_fault=worker_fault)
        else:
            self._take_place()

    def _lose(self, reason: Reason, message: str) -> None:
        """The end of what has streamed already; its worker may still know the count."""
        if self._stop is None:
            self._stop = failed(reason, message)
            self._note_stop(self._stop)
            self._scheduler.withdraw(self.id)
            self._patience.until(self._bounds.abort_s, self._end)
        self.state = State.STOPPING
        self._workers.recover(
            self.facts.worker_id, self.attempt, self._stop.outcome, self._recovered
        )

    def _recovered(self, record: TerminalRecord | None) -> None:
        if self.state is not State.STOPPING:
            return
        self._terminal = record
        self._end()

    def _trace_of(self, number: int) -> TraceContext:
        """Of an attempt: its span is told by those ids when the request has ended."""
        own = child_of(self.trace.traceparent, number)
        return TraceContext(traceparent=own, tracestate=self.trace.tracestate)

    def _note_wait(self, reason: int, position: int) -> None:
        if reason and reason != self._waits_for:
            self._waits_for = reason
            self.trail.note(Moment.QUEUED, queue_reason=reason, position=position)

    def _note_stop(self, cause: StopCause) -> None:
        self.trail.note(Moment.STOPPED, outcome=cause.outcome, error=cause.error)

    def _end(self) -> None:
        if self.state is State.ENDED:
            return
        self.state = State.ENDED
        self.facts.ended_us = self._clock.now_us()
        self._deadline.cancel()
        self._patience.end()
        ending = conclude(
            self.facts, self._terminal, self._stop, prompt_tokens=self.prepared.prompt_tokens
        )
        tokens = ending.usage.completion_tokens
        self.trail.note(Moment.ENDED, outcome=ending.outcome, tokens=tokens)
        if self.facts.attempt:
            self.facts.gpu_id = self._workers.gpu_id(self.facts.worker_id)
            self._workers.forget(self.facts.worker_id, self.attempt)
            self._scheduler.finish(self.attempt, ending.usage, ending.outcome)
        self.ended.set_result(ending)
