"""The life of one request under any order of events, played against bare ports."""

import asyncio
import gc
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tokenizers import Tokenizer
from tokenizers.models import BPE

from tests.gateway.support import caller_of, document_of, published
from weir.common.v1.error_reason_pb2 import ErrorReason
from weir.common.v1.lifecycle_pb2 import Attempt, Outcome, TerminalRecord, TraceContext
from weir.common.v1.sampling_pb2 import FinishReason, SamplingParams
from weir.common.v1.subject_pb2 import DeliveryMode, LatencySla, RequestClass, Subject
from weir.common.v1.usage_pb2 import Usage, UsageQuality
from weir.scheduler.v1 import scheduler_service_pb2 as sched
from weir.worker.v1.worker_service_pb2 import AttemptDelta, StartAttempt
from weir_core.clock import ManualClock
from weir_core.directory import Parameters
from weir_core.errors import Reason
from weir_core.token_bytes import TokenBytes
from weir_gateway.flow.ending import Ending, cancelled, client_gone, quota_stopped
from weir_gateway.flow.live_request import LiveRequest
from weir_gateway.flow.live_state import LiveBounds, State
from weir_gateway.flow.ports import AttemptListener
from weir_gateway.flow.reservation import Reservation
from weir_gateway.flow.trail import Trail
from weir_gateway.intake.prepared_request import PreparedRequest
from weir_gateway.keys import generate_key
from weir_gateway.text.model_text import Prompt

KEY = generate_key("dev")
CALLER = caller_of(published(document_of(KEY), ManualClock()), KEY.id)
PROMPT_TOKENS = 5
TOKEN_BYTES = TokenBytes(Tokenizer(BPE(vocab={}, merges=[])))


def prepared(*, stream: bool) -> PreparedRequest:
    mode = DeliveryMode.DELIVERY_MODE_STREAM if stream else DeliveryMode.DELIVERY_MODE_NON_STREAM
    return PreparedRequest(
        caller=CALLER,
        subject=Subject(tenant_id="acme", model="tiny"),
        prompt=Prompt(list(range(PROMPT_TOKENS)), 2),
        max_new_tokens=1000,
        max_context_tokens=2000,
        sampling=SamplingParams(),
        parameters=Parameters(),
        mode=mode,
        request_class=RequestClass.REQUEST_CLASS_INTERACTIVE,
        latency_sla=LatencySla.LATENCY_SLA_NORMAL,
        priority=0,
        operation="chat",
        fingerprint=b"",
        token_bytes=TOKEN_BYTES,
    )


@dataclass
class FakeTimer:
    then: Callable[[], None]
    live: bool = True

    def cancel(self) -> None:
        self.live = False


@dataclass
class Ports:
    """Scheduler and workers as one object that notes everything."""

    epoch: int = 1
    enqueued: list[sched.Enqueue] = field(default_factory=list)
    withdrawn: int = 0
    failed: list[Attempt] = field(default_factory=list)
    first_tokens: list[Attempt] = field(default_factory=list)
    finished: list[Attempt] = field(default_factory=list)
    starts: list[StartAttempt] = field(default_factory=list)
    aborted: list[Attempt] = field(default_factory=list)
    listening: dict[int, AttemptListener] = field(default_factory=dict)
    recovering: list[Callable[[TerminalRecord | None], None]] = field(default_factory=list)

    def enqueue(self, message: sched.Enqueue) -> bool:
        if self.epoch:
            self.enqueued.append(message)
        return bool(self.epoch)

    def withdraw(self, request_id: str) -> None:
        self.withdrawn += 1

    def attempt_failed(self, attempt: Attempt, reason: Reason, *, worker_fault: bool) -> None:
        self.failed.append(attempt)

    def first_token(self, attempt: Attempt) -> None:
        self.first_tokens.append(attempt)

    def finish(self, attempt: Attempt, usage: Usage, outcome: Outcome.ValueType) -> None:
        self.finished.append(attempt)

    def start(
        self, worker_id: str, address: str, message: StartAttempt, listener: AttemptListener
    ) -> None:
        self.starts.append(message)
        self.listening[message.spec.attempt.number] = listener

    def abort(self, worker_id: str, attempt: Attempt, outcome: Outcome.ValueType) -> None:
        self.aborted.append(attempt)

    def forget(self, worker_id: str, attempt: Attempt) -> None:
        self.listening.pop(attempt.number, None)

    def gpu_id(self, worker_id: str) -> str:
        return "gpu"

    def recover(
        self,
        worker_id: str,
        attempt: Attempt,
        outcome: Outcome.ValueType,
        then: Callable[[TerminalRecord | None], None],
    ) -> None:
        self.recovering.append(then)


class LifeOfARequest(RuleBasedStateMachine):
    """Scheduler, workers, client and timers speak in any order, also out of turn."""

    @initialize(stream=st.booleans())
    def begin(self, stream: bool) -> None:
        self.loop = asyncio.new_event_loop()
        self.ports = Ports()
        self.timers: list[FakeTimer] = []
        self.number = 0
        self.made: dict[int, int] = {}
        self.ended_with: list[Ending] = []
        self.taken = ""
        self.loop.run_until_complete(self._make(stream))
        self.live.on_reserved(Reservation("res", b"r", PROMPT_TOKENS, 1000, [], False))

    async def _make(self, stream: bool) -> None:
        self.live = LiveRequest(
            Trail("req_1", prepared(stream=False).caller, ManualClock()),
            prepared(stream=stream),
            scheduler=self.ports,
            workers=self.ports,
            clock=ManualClock(),
            call_later=self._call_later,
            deadline_s=60,
            trace=TraceContext(),
            bounds=LiveBounds(),
        )

    def _call_later(self, _: float, then: Callable[[], None]) -> FakeTimer:
        self.timers.append(FakeTimer(then))
        return self.timers[-1]

    @rule(again=st.booleans())
    def dispatch(self, again: bool) -> None:
        if not again or not self.number:
            self.number += 1
        self.live.on_dispatched(
            sched.Dispatched(
                attempt=Attempt(request_id="req_1", number=self.number),
                worker_id=f"w{self.number}",
                worker_address="host:1",
            )
        )

    @rule(which=st.integers(0, 3), count=st.integers(1, 3))
    def deltas(self, which: int, count: int) -> None:
        listener, number = self._listener(which)
        for _ in range(count if listener is not None else 0):
            self.made[number] = self.made.get(number, 0) + 1
            delta = AttemptDelta(
                attempt=Attempt(request_id="req_1", number=number),
                token_ids=[number],
                text=f"{number},",
                completion_tokens=self.made[number],
            )
            assert listener is not None
            listener.on_delta(number, delta)

    @rule(
        which=st.integers(0, 3),
        finish=st.sampled_from([1, 2, 3, 4, 5]),
        reason=st.sampled_from(
            [
                ErrorReason.ERROR_REASON_ENGINE_FAILED,
                ErrorReason.ERROR_REASON_REQUEST_TOO_LARGE,
                ErrorReason.ERROR_REASON_CANCELLED,
                ErrorReason.ERROR_REASON_DEADLINE_EXCEEDED,
                ErrorReason.ERROR_REASON_GRANT_INVALID,
            ]
        ),
    )
    def terminal(self, which: int, finish: Any, reason: Any) -> None:
        listener, number = self._listener(which)
        if listener is None:
            return
        self.ports.listening.pop(number, None)
        answered = finish in (1, 2)
        listener.on_terminal(self._record(number, finish, None if answered else reason))

    @rule(which=st.integers(0, 3), reached=st.booleans())
    def worker_lost(self, which: int, reached: bool) -> None:
        listener, number = self._listener(which)
        if listener is not None:
            self.ports.listening.pop(number, None)
            reached = reached or number in self.made
            listener.on_worker_lost(number, reached=reached, message="lost")

    @precondition(lambda self: self.ports.recovering)
    @rule(known=st.booleans())
    def recovered(self, known: bool) -> None:
        record = self._record(self.number, FinishReason.FINISH_REASON_ABORT, None)
        self.ports.recovering.pop(0)(record if known else None)

    @rule(position=st.integers(1, 5))
    def queued(self, position: int) -> None:
        self.live.on_queued(sched.Queued(request_id="req_1", position=position))

    @rule()
    def requeued(self) -> None:
        self.live.on_requeued(sched.Requeued(request_id="req_1", position=1))

    @rule(back=st.integers(0, 1))
    def place_asked_for(self, back: int) -> None:
        """A more urgent request needs it: given back only while nothing has come of it."""
        number, before = max(1, self.number - back), len(self.ports.failed)
        started = self.live.state is State.STARTED and self.live.facts.attempt == number
        self.live.on_requeued(
            sched.Requeued(
                request_id="req_1",
                error_reason=ErrorReason.ERROR_REASON_PREEMPTED,
                attempt=Attempt(request_id="req_1", number=number),
            )
        )
        kept = not started or self.made.get(number, 0) > 0
        if kept:
            assert len(self.ports.failed) == before
        elif self.ports.epoch:
            assert self.live.state is State.QUEUED
            assert self.ports.aborted[-1].number == number

    @rule(back=st.integers(0, 1))
    def attempt_lost(self, back: int) -> None:
        number = max(1, self.number - back)
        attempt = Attempt(request_id="req_1", number=number)
        self.live.on_attempt_lost(sched.AttemptLost(attempt=attempt))

    @rule()
    def scheduler_goes(self) -> None:
        if self.ports.epoch:
            self.last_epoch = self.ports.epoch
            self.ports.epoch = 0
            self.live.on_scheduler_lost()

    @rule()
    def scheduler_comes(self) -> None:
        if not self.ports.epoch:
            self.ports.epoch = self.last_epoch + 1
            self.live.on_scheduler_connected()

    @rule(
        how=st.sampled_from(
            ["reject", "timer", client_gone, cancelled, lambda: quota_stopped("x", [])]
        )
    )
    def end_early(self, how: Any) -> None:
        """One rule, so that most lives are long."""
        due = [timer for timer in self.timers if timer.live]
        if how == "reject":
            reason = ErrorReason.ERROR_REASON_NO_WORKER
            self.live.on_rejected(sched.Rejected(request_id="req_1", error_reason=reason))
        elif how == "timer" and due:
            due[-1].live = False
            due[-1].then()
        elif callable(how):
            self.live.stop(how())

    @rule()
    def attempt_goes_wrong_and_another_comes(self) -> None:
        """The likeliest way to two answers: something ran, then another attempt runs."""
        self.dispatch(again=False)
        self.deltas(which=0, count=2)
        self.read()
        self.worker_lost(which=0, reached=True)
        self.dispatch(again=False)
        self.deltas(which=0, count=1)

    @rule()
    def read(self) -> None:
        if self.live.ended.done():
            self.live.delivery.finish(self.live.ended.result())
        taken = self.loop.run_until_complete(self.live.delivery.take(0))
        self.taken += "".join(piece.text for piece in taken.pieces)

    @invariant()
    def the_client_sees_one_attempt_alone(self) -> None:
        seen = {part for part in self.taken.split(",") if part}
        assert len(seen) <= 1

    @invariant()
    def attempts_only_grow(self) -> None:
        numbers = [start.spec.attempt.number for start in self.ports.starts]
        assert numbers == sorted(set(numbers))

    @invariant()
    def the_end_comes_once_and_holds_together(self) -> None:
        assert self.live.ended.done() == (self.live.state is State.ENDED)
        if not self.live.ended.done():
            return
        ending = self.live.ended.result()
        self.ended_with.append(ending)
        assert self.ended_with[0] is ending
        assert not [timer for timer in self.timers if timer.live]
        assert not self.ports.listening
        assert (ending.error is None) == (ending.outcome == Outcome.OUTCOME_OK)
        assert ending.started == bool(self.ports.starts)
        assert len(self.ports.finished) == (1 if self.ports.starts else 0)
        if ending.outcome == Outcome.OUTCOME_OK:
            assert ending.quality == UsageQuality.USAGE_QUALITY_EXACT
            assert ending.finish_reason in (
                FinishReason.FINISH_REASON_STOP,
                FinishReason.FINISH_REASON_LENGTH,
            )
        assert ending.usage.completion_tokens <= max(self.made.values(), default=0)

    @invariant()
    def a_request_that_waits_is_known_to_the_scheduler_or_timed(self) -> None:
        if self.live.state is State.ENDED:
            return
        timers = [timer for timer in self.timers if timer.live]
        assert timers, "nothing waits for ever"

    def teardown(self) -> None:
        if not hasattr(self, "live"):
            return
        for timer in [timer for timer in self.timers if timer.live]:
            timer.live = False
            timer.then()
        for timer in [timer for timer in self.timers if timer.live]:
            timer.live = False
            timer.then()
        assert self.live.ended.done()
        self.read()
        self.the_client_sees_one_attempt_alone()
        if self.live.ended.result().outcome == Outcome.OUTCOME_OK:
            number = self.live.facts.attempt
            assert self.taken == f"{number}," * self.made.get(number, 0)
        self.loop.close()

    def _listener(self, which: int) -> tuple[AttemptListener | None, int]:
        numbers = sorted(self.ports.listening)
        if not numbers:
            return None, 0
        number = numbers[which % len(numbers)]
        return self.ports.listening[number], number

    def _record(self, number: int, finish: Any, reason: Any) -> TerminalRecord:
        return TerminalRecord(
            attempt=Attempt(request_id="req_1", number=number),
            finish_reason=finish,
            error_reason=reason,
            usage=Usage(prompt_tokens=PROMPT_TOKENS, completion_tokens=self.made.get(number, 0)),
        )


async def test_one_that_has_ended_is_freed_without_the_collector() -> None:
    live = LiveRequest(
        Trail("req_1", CALLER, ManualClock()),
        prepared(stream=True),
        scheduler=Ports(),
        workers=Ports(),
        clock=ManualClock(),
        call_later=asyncio.get_running_loop().call_later,
        deadline_s=60,
        trace=TraceContext(),
        bounds=LiveBounds(),
    )
    live.on_reserved(Reservation("res", b"r", PROMPT_TOKENS, 1000, [], False))
    live.stop(cancelled())
    freed = weakref.ref(live)
    gc.disable()
    try:
        del live
        assert freed() is None
    finally:
        gc.enable()


TestLifeOfARequest = LifeOfARequest.TestCase
TestLifeOfARequest.settings = settings(max_examples=150, stateful_step_count=25, deadline=None)
