"""The step engine: commands in, one output a step. No threads, no I/O."""

import dataclasses
import logging
from collections.abc import Callable
from itertools import islice

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
from weir_worker.engine.events import Failure, FinishReason, KvFrame, StepOutput
from weir_worker.engine.intake import Intake, ServedModel
from weir_worker.engine.limits import StepLimits
from weir_worker.engine.memory_ahead import MemoryAhead
from weir_worker.engine.news import News
from weir_worker.engine.owed_text import EndOfText, OwedText, say
from weir_worker.engine.planner import StepPlanner
from weir_worker.engine.runner import OverlappingRunner, StepRunner
from weir_worker.engine.sequence import Sequence, Status
from weir_worker.engine.step_plan import StepPlan
from weir_worker.grammars.compilations import Compilations, Compile
from weir_worker.kv import KvManager, check_integrity
from weir_worker.kv.kv_scan import KvScan
from weir_worker.models.base import ForwardBatch
from weir_worker.sampling import Grammar, Samples, SamplingState, TokenLogprobs
from weir_worker.sampling.constraint import Constraint
from weir_worker.text import DetokenizerFactory

logger = logging.getLogger(__name__)

# Steps in a row that had work and computed nothing. One happens after a pre-emption.
_STALL_LIMIT = 3
# Blocks looked at with a step, half a millisecond, and at a time while nothing is to be done.
_SCANNED_A_STEP, _SCANNED_IDLE = 2_048, 16_384
# After longer steps more: one for so long a time, of which it takes a sixteenth.
_SCAN_EVERY_US = 4
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
        self._sequences: dict[str, Sequence] = {}
        self._deadlines = Deadlines(self._holds)
        self._ahead = ahead
        self._owed = OwedText()
        self._ended: list[EndOfText] = []
        self._stalled_steps = 0
        self._scan: KvScan | None = None
        self._compilations = Compilations(compile_grammar or _no_grammars)

    def has_work(self) -> bool:
        """Whether a step would do anything."""
        return self.planner.has_work() or len(self._compilations) > 0

    def apply(self, command: Command) -> None:
        """Carry out a command; what comes of it is in the next output. Raises nothing."""
        self._settle_text()
        match command:
            case Submit():
                self._submit(command)
            case Abort(request_id, attempt, reason, message):
                sequence = self._sequences.get(request_id)
                if sequence is not None and sequence.attempt == attempt:
                    self._finish(sequence, FinishReason.ABORT, Failure(reason, message))
                elif dropped := self._compilations.drop(request_id, attempt):
                    self._news.rejected(dropped, Failure(reason, message))
            case Preempt(request_id):
                sequence = self._sequences.get(request_id)
                if sequence is not None and sequence.status is Status.RUNNING:
                    self.planner.preempt(sequence)
            case ReadKv():
                self._scan = self._scan or KvScan(self._kv.pool.blocks)
            case ReleaseSession(tenant, session):
                self._release_session(tenant, session)
            case SetLimits():
                self._set_limits(command)
            case Stop(message):
                failure = Failure(Reason.DRAINING, message)
                for sequence in list(self._sequences.values()):
                    self._finish(sequence, FinishReason.ABORT, failure)
                for submit in self._compilations.drop_all():
                    self._news.rejected(submit, failure)

    @property
    def looks(self) -> bool:
        """Whether a look at the KV blocks goes on, with each step or heartbeat."""
        return self._scan is not None

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
                self._settle_text()
        except Exception:
            logger.exception("engine step failed; every request in the engine ends")
            failure = Failure(Reason.INTERNAL, "the engine failed between two steps")
            self._settle_text()
            for sequence in list(self._sequences.values()):
                self._finish(sequence, FinishReason.ERROR, failure, discard=True)
        took_us = self._clock.monotonic_us() - started_us
        scanned = max(_SCANNED_A_STEP, took_us // _SCAN_EVERY_US)
        return self._with_kv(self._news.take(started_us), scanned)

    def heartbeat(self) -> StepOutput:
        """Return what happened without a step: an idle engine's sign of life."""
        self._settle_text()
        if self._ahead is not None:
            self._ahead.idle()
        self._kv.advance(self._clock.monotonic_us())
        return self._with_kv(self._news.take(None), _SCANNED_IDLE)

    def check_integrity(self) -> None:
        """Recount all blocks. Raises IntegrityError."""
        check_integrity(self._kv, (s.table for s in self._sequences.values()))

    def _with_kv(self, output: StepOutput, most: int) -> StepOutput:
        """Goes on with a look at the blocks, if one was asked for; adds it when it is whole."""
        scan = self._scan
        if scan is not None and scan.advance(most):
            self._scan = None
            columns = (scan.lengths, scan.states, scan.owners, scan.references)
            output.kv = KvFrame(scan.tenants, *(column.tobytes() for column in columns))
        return output

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
        self._sequences[submit.request_id] = sequence
        self.planner.add(sequence)

    def _holds(self, request_id: str, attempt: int) -> bool:
        sequence = self._sequences.get(request_id)
        if sequence is not None and sequence.attempt == attempt:
            return True
        return self._compilations.holds(request_id, attempt)

    def _supersede(self, submit: Submit) -> None:
        """End an older attempt of the same request; refuse one that is not newer."""
        if older := self._compilations.supersede(submit):
            self._news.rejected(older, _superseded(submit))
        running = self._sequences.get(submit.request_id)
        if running is None:
            return
        if submit.attempt <= running.attempt:
            raise WeirError(
                Reason.STALE_ATTEMPT,
                f"attempt {submit.attempt} is not newer than attempt {running.attempt}, "
                "which is in the engine",
            )
        self._finish(running, FinishReason.ABORT, _superseded(submit))

    def _release_session(self, tenant: str, session: str) -> None:
        """A turn that is here goes on, and keeps nothing when it ends."""
        self._kv.release_session(tenant, session)
        self._compilations.release_session(tenant, session)
        for sequence in self._sequences.values():
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
            self._settle_text()
            logger.exception("forward pass failed; the %d requests in it end", len(plan.sequences))
            self._news.counters.failed_steps += 1
            failure = Failure(
                Reason.ENGINE_FAILED, f"the forward pass failed ({type(error).__name__})"
            )
            for sequence in plan.sequences:
                self._finish(sequence, FinishReason.ERROR, failure, discard=True)
            return
        run_us = self._clock.monotonic_us() - began_us
        if self.planner.cost.wants(plan.decodes < len(plan.sequences)):
            self.planner.cost.observe(plan.shape(), run_us)
        self._news.computed(plan, run_us)
        plan.note_chunks(start_us, self._clock.now_us())
        self._absorb(plan, samples)

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
            self._ended = self._owed.settle()
            meanwhile()
        except Exception:
            # No fault of the step, and no step may start before this one is waited for.
            logger.exception("what is done while a step runs failed")
        try:
            return pending.wait()
        finally:
            self._end_texts()

    def _settle_text(self) -> None:
        """Make the text that is owed; not while a step runs, whose sequences may end with it."""
        self._ended = self._owed.settle()
        self._end_texts()

    def _end_texts(self) -> None:
        ended, self._ended = self._ended, []
        for end in ended:
            self._finish(end.sequence, end.reason, end.failure)

    def _absorb(self, plan: StepPlan, samples: Samples) -> None:
        """Note what a step computed; a block is published only now that its KV is written."""
        now_us = self._clock.now_us()
        row = 0
        told, pooled = iter(samples.prompt_logprobs), iter(samples.pooled)
        for sequence, length in zip(plan.sequences, plan.lengths, strict=True):
            if sequence.status is Status.FINISHED:
                # Its text ended it while this step ran, which drew one token too many.
                row += 1
                continue
            if sequence.told is not None:
                sequence.told.extend(islice(told, len(sequence.untold(length))))
            sequence.advance(length)
            if sequence.pooled is not None:
                self._pool(sequence, next(pooled), now_us)
                continue
            samples_here = sequence.computed == len(sequence.token_ids)
            if samples_here and row in samples.failures:
                self._fail(sequence, samples.failures[row])
            else:
                self._kv.commit(sequence.table, sequence.computed)
                if samples_here:
                    logprobs = samples.logprobs.get(row)
                    self._accept(sequence, samples.tokens[row], logprobs, now_us)
            row += samples_here

    def _pool(self, sequence: Sequence, sums: list[float], now_us: int) -> None:
        """Note hidden states; with the last of them the sequence ends. Its KV serves nobody."""
        sequence.add_pooled(sums)
        if sequence.remaining:
            return
        sequence.prefill_end_us = now_us
        self._news.prefill_ended(sequence)
        try:
            self._news.embedded(sequence, sequence.embedding())
        except ArithmeticError as error:
            self._fail(sequence, str(error))
            return
        self._finish(sequence, FinishReason.STOP)

    def _fail(self, sequence: Sequence, problem: str) -> None:
        """End a sequence that no token could be drawn for."""
        reason, failure = FinishReason.ERROR, Failure(Reason.ENGINE_FAILED, problem)
        if sequence.sampling.problem:
            # The request's own doing: no other attempt would go better, and a fault counted
            # here would keep everybody's work from a worker that is well.
            reason = FinishReason.ABORT
            failure = Failure(Reason.INVALID_FIELD, problem, "grammar")
        self._finish(sequence, reason, failure, discard=True)

    def _accept(
        self, sequence: Sequence, token_id: int, logprobs: TokenLogprobs | None, now_us: int
    ) -> None:
        if not sequence.first_token_us:
            sequence.prefill_end_us = sequence.first_token_us = now_us
            self._news.prefill_ended(sequence)
        reason = sequence.take(token_id)
        delta = self._news.sampled(sequence, token_id, logprobs)
        if reason is None:
            self._owed.owe(sequence, delta)
        elif end := say(sequence, delta, reason):
            self._finish(sequence, end.reason, end.failure)

    def _finish(
        self,
        sequence: Sequence,
        reason: FinishReason,
        failure: Failure | None = None,
        *,
        discard: bool = False,
    ) -> None:
        """End a sequence: the only way out. A second call does nothing."""
        if sequence.status is Status.FINISHED:
            return
        ended_well = failure is None and reason in (FinishReason.STOP, FinishReason.LENGTH)
        freed = self.planner.remove(sequence, discard=discard, keep_turn=ended_well)
        if discard and freed:
            self._clear(freed)
        del self._sequences[sequence.request_id]
        self._news.finished(sequence, reason, failure)

    def _clear(self, blocks: list[int]) -> None:
        """Wipe blocks: attention may read past a sequence's end, where a NaN would spread."""
        try:
            self._runner.clear(blocks)
        except Exception:
            logger.exception("KV blocks could not be wiped")

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
        self._finish(head, FinishReason.ERROR, failure)


def _superseded(submit: Submit) -> Failure:
    return Failure(Reason.STALE_ATTEMPT, f"superseded by attempt {submit.attempt}")


def _no_grammars(tenant: str, grammar: Grammar) -> Constraint:
    raise WeirError(
        Reason.UNSUPPORTED_FIELD,
        f"this engine cannot follow a {grammar.kind.value}: it has no real model",
        field="grammar",
    )
