"""The step engine: commands in, one output a step. No threads, no I/O."""

import dataclasses
import logging
from collections.abc import Callable

from weir_core.clock import Clock
from weir_core.errors import Reason, WeirError
from weir_worker.engine.commands import (
    Abort,
    Command,
    Preempt,
    ReadKv,
    ReleaseSession,
    SetLimits,
    Stop,
    Submit,
)
from weir_worker.engine.deadlines import Deadlines
from weir_worker.engine.events import Failure, FinishReason, StepOutput
from weir_worker.engine.intake import Intake, ServedModel
from weir_worker.engine.kv_look import KvLook
from weir_worker.engine.limits import StepLimits
from weir_worker.engine.memory_ahead import MemoryAhead
from weir_worker.engine.news import News
from weir_worker.engine.planner import StepPlanner
from weir_worker.engine.residents import Residents
from weir_worker.engine.runner import OverlappingRunner, StepRunner
from weir_worker.engine.sequence import Status
from weir_worker.engine.step_plan import StepPlan
from weir_worker.engine.step_results import StepResults
from weir_worker.grammars.compilations import Compilations, Compile
from weir_worker.kv import KvManager, check_integrity
from weir_worker.models.base import ForwardBatch
from weir_worker.sampling import Grammar, Samples, SamplingState
from weir_worker.sampling.constraint import Constraint
from weir_worker.text import DetokenizerFactory

logger = logging.getLogger(__name__)

# Steps in a row that had work and computed nothing. One happens after a pre-emption.
_STALL_LIMIT = 3
# A wait for a grammar, during which commands are not read.
_COMPILE_WAIT_S = 0.005
_DEADLINE_PASSED = "the deadline of the request passed"


def _nothing() -> None:
    """There is nothing to do meanwhile."""


class Engine:
    """Runs sequences over one model and one KV cache.

    Every submission ends in exactly one terminal; its blocks are back by then. A fault of one
    sequence ends that sequence; a fault of a forward pass ends those in it; the engine goes on.
    """

    def __init__(
        self,
        model: ServedModel,
        runner: StepRunner,
        kv: KvManager,
        detokenizers: DetokenizerFactory,
        limits: StepLimits,
        clock: Clock,
        compile_grammar: Compile | None = None,
        ahead: MemoryAhead | None = None,
    ) -> None:
        self.planner = StepPlanner(kv, limits)
        self._runner = runner
        # Asked once: a look at a protocol takes as long as ten sequences of a step.
        self._overlapping = runner if isinstance(runner, OverlappingRunner) else None
        self._kv = kv
        self._intake = Intake(model, kv, detokenizers, clock)
        self._clock = clock
        self._news = News(kv, self.planner, clock)
        self._residents = Residents(self.planner, self._news, runner)
        self._results = StepResults(self._residents, kv, self._news, clock)
        self._look = KvLook(kv.pool)
        self._deadlines = Deadlines(self._holds)
        self._ahead = ahead
        self._stalled_steps = 0
        self._compilations = Compilations(compile_grammar or _no_grammars)

    def has_work(self) -> bool:
        """Whether a step would do anything."""
        return self.planner.has_work() or len(self._compilations) > 0

    def apply(self, command: Command) -> None:
        """Carry out a command; what comes of it is in the next output. Raises nothing."""
        self._results.settle_text()
        match command:
            case Submit():
                self._submit(command)
            case Abort(request_id, attempt, reason, message):
                if sequence := self._residents.attempt(request_id, attempt):
                    self._residents.finish(sequence, FinishReason.ABORT, Failure(reason, message))
                elif dropped := self._compilations.drop(request_id, attempt):
                    self._news.rejected(dropped, Failure(reason, message))
            case Preempt(request_id):
                sequence = self._residents.get(request_id)
                if sequence is not None and sequence.status is Status.RUNNING:
                    self.planner.preempt(sequence)
            case ReadKv():
                self._look.begin()
            case ReleaseSession(tenant, session):
                self._release_session(tenant, session)
            case SetLimits():
                self._set_limits(command)
            case Stop(message):
                failure = Failure(Reason.DRAINING, message)
                for sequence in self._residents:
                    self._residents.finish(sequence, FinishReason.ABORT, failure)
                for submit in self._compilations.drop_all():
                    self._news.rejected(submit, failure)

    @property
    def looks(self) -> bool:
        """Whether a look at the KV blocks goes on, with each step or heartbeat."""
        return self._look.goes_on

    @property
    def overlaps(self) -> bool:
        """Whether steps are computed elsewhere, so that other work costs them nothing."""
        return self._overlapping is not None

    def step(self, meanwhile: Callable[[], None] = _nothing) -> StepOutput:
        """Compute one step and return everything that happened since the last output.

        `meanwhile` is called once the step has been started, if it `overlaps`; the last output
        is whole then. If nothing is left to do it is whole at once.
        """
        started_us = self._clock.monotonic_us()
        try:
            self._expire(started_us)
            if len(self._compilations):
                self._take_compiled()
            self._kv.advance(started_us)
            self.planner.now_us = self._clock.now_us()
            plan = self.planner.plan()
            if plan.sequences:
                self._stalled_steps = 0
                self._run(plan, meanwhile)
            elif self.planner.has_work():
                self._watch_stall()
            if not (plan.sequences and self.overlaps and self.has_work()):
                self._results.settle_text()
        except Exception:
            logger.exception("engine step failed; every request in the engine ends")
            failure = Failure(Reason.INTERNAL, "the engine failed between two steps")
            self._results.settle_text()
            for sequence in self._residents:
                self._residents.finish(sequence, FinishReason.ERROR, failure, discard=True)
        took_us = self._clock.monotonic_us() - started_us
        return self._look.add_to(self._news.take(started_us), took_us)

    def heartbeat(self) -> StepOutput:
        """Return what happened without a step: an idle engine's sign of life."""
        self._results.settle_text()
        if self._ahead is not None:
            self._ahead.idle()
        self._kv.advance(self._clock.monotonic_us())
        return self._look.add_to(self._news.take(None), None)

    def check_integrity(self) -> None:
        """Recount all blocks. Raises IntegrityError."""
        check_integrity(self._kv, (sequence.table for sequence in self._residents))

    def _submit(self, submit: Submit) -> None:
        try:
            self._supersede(submit)
        except WeirError as error:
            self._news.rejected(submit, Failure.of(error))
            return
        if submit.grammar is not None:
            self._compilations.start(submit)
        else:
            self._accept_submission(submit, None)
        self._deadlines.add(submit.deadline_us, submit.request_id, submit.attempt)

    def _take_compiled(self) -> None:
        """Queue what is compiled; with nothing else to do, wait for it a moment."""
        if not self.planner.has_work():
            self._compilations.wait(_COMPILE_WAIT_S)
        for submit, future in self._compilations.take_ready():
            # Not result(): a panic of the library is no Exception, and would end the engine.
            error = future.exception()
            if error is None:
                self._accept_submission(submit, future.result())
            elif isinstance(error, WeirError):
                self._news.rejected(submit, Failure.of(error))
            else:
                logger.error("compilation failed", exc_info=error)
                failure = Failure(Reason.INTERNAL, "the grammar could not be compiled")
                self._news.rejected(submit, failure)

    def _accept_submission(self, submit: Submit, constraint: Constraint | None) -> None:
        try:
            sequence = self._intake.accept(submit, constraint)
        except WeirError as error:
            self._news.rejected(submit, Failure.of(error))
            return
        except Exception:
            logger.exception("submission failed", extra={"request_id": submit.request_id})
            self._news.rejected(submit, Failure(Reason.INTERNAL, "the engine could not take it"))
            return
        self._residents.add(sequence)

    def _holds(self, request_id: str, attempt: int) -> bool:
        if self._residents.attempt(request_id, attempt) is not None:
            return True
        return self._compilations.holds(request_id, attempt)

    def _supersede(self, submit: Submit) -> None:
        """End an older attempt of the same request; refuse one that is not newer."""
        if older := self._compilations.supersede(submit):
            self._news.rejected(older, _superseded(submit))
        running = self._residents.get(submit.request_id)
        if running is None:
            return
        if submit.attempt <= running.attempt:
            raise WeirError(
                Reason.STALE_ATTEMPT,
                f"attempt {submit.attempt} is not newer than attempt {running.attempt}, "
                "which is in the engine",
            )
        self._residents.finish(running, FinishReason.ABORT, _superseded(submit))

    def _release_session(self, tenant: str, session: str) -> None:
        """A turn that is here goes on, and keeps nothing when it ends."""
        self._kv.release_session(tenant, session)
        self._compilations.release_session(tenant, session)
        for sequence in self._residents:
            if (sequence.tenant, sequence.session) == (tenant, session):
                sequence.session_ttl_us = 0

    def _set_limits(self, command: SetLimits) -> None:
        now = self.planner.limits
        try:
            self.planner.limits = dataclasses.replace(
                now,
                max_step_tokens=command.max_step_tokens or now.max_step_tokens,
                max_running=command.max_running or now.max_running,
            )
        except WeirError as error:
            logger.warning("limits not changed: %s", error.message)

    def _expire(self, now_us: int) -> None:
        for request_id, attempt in self._deadlines.take_due(now_us):
            self.apply(Abort(request_id, attempt, Reason.DEADLINE_EXCEEDED, _DEADLINE_PASSED))

    def _run(self, plan: StepPlan, meanwhile: Callable[[], None]) -> None:
        start_us = self._clock.now_us()
        for sequence in plan.sequences[plan.decodes :]:
            sequence.prefill_start_us = sequence.prefill_start_us or start_us
        batch, states = plan.batch()
        began_us = self._clock.monotonic_us()
        try:
            samples = self._compute(batch, states, meanwhile)
        except Exception as error:
            self._results.settle_text()
            logger.exception("forward pass failed; the %d requests in it end", len(plan.sequences))
            self._news.counters.failed_steps += 1
            failure = Failure(
                Reason.ENGINE_FAILED, f"the forward pass failed ({type(error).__name__})"
            )
            for sequence in plan.sequences:
                self._residents.finish(sequence, FinishReason.ERROR, failure, discard=True)
            return
        run_us = self._clock.monotonic_us() - began_us
        if self.planner.cost.wants(plan.decodes < len(plan.sequences)):
            self.planner.cost.observe(plan.shape(), run_us)
        self._news.computed(plan, run_us)
        plan.note_chunks(start_us, self._clock.now_us())
        self._results.take(plan, samples)

    def _compute(
        self,
        batch: ForwardBatch,
        states: list[SamplingState],
        meanwhile: Callable[[], None],
    ) -> Samples:
        if self._overlapping is None:
            return self._runner.run(batch, states)
        pending = self._overlapping.start(batch, states)
        try:
            self._results.make_text()
            meanwhile()
        except Exception:
            # No fault of the step, and no step may start before this one is waited for.
            logger.exception("what is done while a step runs failed")
        try:
            return pending.wait()
        finally:
            self._results.end_texts()

    def _watch_stall(self) -> None:
        """Refuse the head of the queue rather than let everyone wait behind it for ever."""
        self._stalled_steps += 1
        head = self.planner.waiting.first()
        if self._stalled_steps <= _STALL_LIMIT or head is None:
            return
        logger.error(
            "no progress: a sequence of %d tokens waits, %d of %d KV blocks are available",
            len(head.token_ids),
            self._kv.available_blocks,
            self._kv.total_blocks,
        )
        failure = Failure(Reason.INTERNAL, "the engine could not schedule the request")
        self._residents.finish(head, FinishReason.ERROR, failure)


def _superseded(submit: Submit) -> Failure:
    return Failure(Reason.STALE_ATTEMPT, f"superseded by attempt {submit.attempt}")


def _no_grammars(tenant: str, grammar: Grammar) -> Constraint:
    raise WeirError(
        Reason.UNSUPPORTED_FIELD,
        f"this engine cannot follow a {grammar.kind.value}: it has no real model",
        field="grammar",
    )
