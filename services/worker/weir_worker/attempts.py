"""Attempts of this worker, from their start to their one terminal record."""

import asyncio
from collections.abc import Iterable, Sequence

from weir.common.v1.lifecycle_pb2 import Attempt, SignedGrant, TerminalRecord
from weir.worker.v1.worker_service_pb2 import GenerationSpec
from weir_core.clock import Clock
from weir_core.errors import InvalidField, Reason, WeirError
from weir_worker.abort_cause import SUPERSEDED, AbortCause
from weir_worker.attempt_history import AttemptHistory
from weir_worker.attempt_observers import AttemptObservers
from weir_worker.choices import Choices
from weir_worker.embed_inputs import EmbedInputs, choices_of
from weir_worker.engine.commands import Submit
from weir_worker.engine.events import Delta, Failure, StepOutput, Terminal
from weir_worker.engine_commands import EngineCommands
from weir_worker.grant_check import GrantCheck
from weir_worker.running_attempt import AttemptSink, RunningAttempt
from weir_worker.start_check import StartCheck, check_attempt
from weir_worker.start_refused import StartRefused
from weir_worker.terminal_record import record_of, refusal_of, timed
from weir_worker.terminal_records import AttemptKey, TerminalRecords


class Attempts:
    """The one owner of what runs here. For one event loop.

    Args:
        engine: takes the commands.
        starts: validates specs.
        grants: verifies grants.
        records: keeps the ends.
        worker_id: stands in every record.
        clock: time.
        max_running: starts beyond so many answers at once are refused with QUEUE_FULL.

    Attributes:
        max_running: may be changed at any time.
        draining: while set, every start is refused.
        records: of the attempts that ended.
        observers: told of every attempt.
    """

    def __init__(
        self,
        engine: EngineCommands,
        starts: StartCheck,
        grants: GrantCheck,
        records: TerminalRecords,
        *,
        worker_id: str,
        clock: Clock,
        max_running: int,
    ) -> None:
        self.max_running = max_running
        self.draining = False
        self.records = records
        self.observers = AttemptObservers()
        self._engine = engine
        self._starts = starts
        self._grants = grants
        self._worker_id = worker_id
        self._clock = clock
        self._running: dict[AttemptKey, RunningAttempt] = {}
        # Answers but the first, of attempts that have several.
        self._others: dict[AttemptKey, tuple[RunningAttempt, int]] = {}
        self._places = 0
        self._history = AttemptHistory(records)
        self._waiters: dict[AttemptKey, asyncio.Future[TerminalRecord]] = {}
        self._idle = asyncio.Event()
        self._idle.set()

    def __len__(self) -> int:
        return len(self._running)

    def running(self) -> Iterable[RunningAttempt]:
        """Attempts that run or wait now."""
        return self._running.values()

    def start(self, grant: SignedGrant, spec: GenerationSpec, sink: AttemptSink) -> RunningAttempt:
        """Starts an attempt; its news goes to `sink`.

        A start that comes twice from the same sink changes nothing.
        Raises StartRefused, whose record is kept.
        """
        known = self._running.get((spec.attempt.request_id, spec.attempt.number))
        if known is not None and known.sink is sink:
            return known
        try:
            submit = self._admit(grant, spec)
            choices = choices_of(submit, spec)
            self._supersede(submit.request_id)
            self._engine.submit(choices.first if isinstance(choices, EmbedInputs) else submit)
        except WeirError as error:
            raise StartRefused(error, self._refuse(spec, error)) from None
        attempt = RunningAttempt(
            choices=choices,
            key=(submit.request_id, submit.attempt),
            tenant=submit.tenant,
            prompt_tokens=len(submit.prompt_token_ids),
            max_new_tokens=submit.max_new_tokens,
            sampling=submit.sampling,
            sink=sink,
            trace=spec.trace,
            received_us=self._clock.now_us(),
        )
        self._running[attempt.key] = attempt
        self._places += attempt.places
        if attempt.choices is not None:
            for index, key in enumerate(attempt.choices.keys[1:], 1):
                self._others[key] = (attempt, index)
        self._history.note_start(attempt.key)
        self._idle.clear()
        self.observers.started(attempt)
        if isinstance(choices, EmbedInputs):
            self._start_rest(attempt, choices)
        return attempt

    def abort(self, key: AttemptKey, cause: AbortCause) -> bool:
        """Asks the engine to end an attempt at the next step boundary.

        Returns whether the attempt is known here, running or ended. An unknown one will be
        refused should its start still come.
        """
        attempt = self._running.get(key)
        if attempt is not None:
            self._abort_running(attempt, cause)
            return True
        if self.records.get(*key) is not None:
            return True
        self._history.note_aborted_unseen(key)
        return False

    def abort_all(self, cause: AbortCause) -> None:
        """Aborts everything that runs."""
        for attempt in list(self._running.values()):
            self._abort_running(attempt, cause)

    def release_session(self, tenant: str, session: str) -> None:
        """Asks the engine to give up what is kept of a session between its turns."""
        self._engine.release_session(tenant, session)

    async def end_of(self, key: AttemptKey) -> TerminalRecord:
        """Waits for the end of an attempt; bound it with `asyncio.timeout`.

        Raises WeirError(NOT_FOUND) when neither the attempt nor its record is known.
        """
        if key in self._running:
            waiter = self._waiters.get(key)
            if waiter is None:
                waiter = self._waiters[key] = asyncio.get_running_loop().create_future()
            return await asyncio.shield(waiter)
        return self.record(*key)

    def record(self, request_id: str, number: int) -> TerminalRecord:
        """The record of an ended attempt; number 0 is the newest that ended.

        Raises WeirError(NOT_FOUND).
        """
        record = self.records.get(request_id, number)
        if record is None:
            state = "still runs" if (request_id, number) in self._running else "is not known here"
            raise WeirError(
                Reason.NOT_FOUND,
                f"attempt {number} of request {request_id} {state}; records are kept for "
                f"{self.records.keep_s:g} s after the end",
            )
        return record

    async def wait_idle(self) -> None:
        """Returns when nothing runs; bound it with `asyncio.timeout`."""
        await self._idle.wait()

    def on_step(self, output: StepOutput) -> None:
        """Passes the news of one step on."""
        running = self._running
        for prefilled in output.prefilled:
            if attempt := running.get((prefilled.request_id, prefilled.attempt)):
                attempt.note_prefilled(prefilled)
                if attempt.choices is not None:
                    self._start_rest(attempt, attempt.choices)
        for delta in output.deltas:
            key = (delta.request_id, delta.attempt)
            if attempt := running.get(key):
                self._on_delta(attempt, delta, 0)
            elif other := self._others.get(key):
                self._on_delta(other[0], delta, other[1])
        for terminal in output.terminals:
            key = (terminal.request_id, terminal.attempt)
            if attempt := running.get(key):
                self._on_terminal(attempt, terminal, 0)
            elif other := self._others.get(key):
                self._on_terminal(other[0], terminal, other[1])
        for progress in output.progress:
            key = (progress.request_id, progress.attempt)
            if attempt := running.get(key):
                attempt.note_progress(progress)
            elif other := self._others.get(key):
                other[0].note_progress(progress, other[1])

    def _on_delta(self, attempt: RunningAttempt, delta: Delta, choice: int) -> None:
        if not attempt.completion_tokens and delta.token_ids:
            attempt.first_token_us = self._clock.now_us()
        attempt.completion_tokens += len(delta.token_ids)
        attempt.sink.on_delta(attempt, delta, choice)

    def _on_terminal(self, attempt: RunningAttempt, terminal: Terminal, choice: int) -> None:
        # An engine that was lost could not tell the times.
        timely = terminal if terminal.received_us else timed(terminal, attempt)
        choices = attempt.choices
        if choices is None:
            self._end(attempt, timely)
            return
        choices.note_end(choice, timely)
        if terminal.failure is not None:
            failure = terminal.failure
            self._abort_running(attempt, AbortCause(failure.reason, failure.message))
        if choices.ended:
            self._end(attempt, choices.terminal())

    def _start_rest(self, attempt: RunningAttempt, choices: Choices) -> None:
        """The prompt is computed: its other answers find it."""
        if attempt.aborting:
            return
        for index, submit in enumerate(choices.take_rest(), 1):
            try:
                self._engine.submit(submit)
            except WeirError as error:
                choices.note_unstarted(index, Failure.of(error), self._clock.now_us())
                self._abort_running(attempt, AbortCause(error.reason, error.message))

    def _admit(self, grant: SignedGrant, spec: GenerationSpec) -> Submit:
        key = check_attempt(spec.attempt)
        if self.draining:
            raise WeirError(Reason.DRAINING, "this worker is draining and takes no new attempts")
        self._grants.check(grant, spec)
        self._history.check_fresh(key)
        submit = self._starts.submit_of(spec)
        if spec.sampling.n > self.max_running:
            bound = f"1 to {self.max_running}, the worker's max_concurrent_requests"
            raise InvalidField("sampling.n", spec.sampling.n, bound)
        if self._places + max(1, spec.sampling.n) > self.max_running:
            raise WeirError(
                Reason.QUEUE_FULL,
                f"{self._places} answers are being made in this worker and "
                f"max_concurrent_requests is {self.max_running}",
            )
        return submit

    def _supersede(self, request_id: str) -> None:
        older = self._running.get((request_id, self._history.running_number(request_id)))
        if older is not None:
            self._abort_running(older, SUPERSEDED)

    def _abort_running(self, attempt: RunningAttempt, cause: AbortCause) -> None:
        if not attempt.aborting:
            attempt.aborting = True
            keys = [attempt.key] if attempt.choices is None else attempt.choices.running
            for key in keys:
                self._engine.abort(*key, cause.reason, cause.message)

    def _refuse(self, spec: GenerationSpec, error: WeirError) -> TerminalRecord:
        record = refusal_of(spec, error, worker_id=self._worker_id, now_us=self._clock.now_us())
        recorded = error.reason is not Reason.GRANT_INVALID and self._is_new(spec.attempt)
        if recorded:
            self.records.add(record)
        self.observers.refused(spec, record, recorded=recorded)
        return record

    def _is_new(self, attempt: Attempt) -> bool:
        """Whether a refusal may stand as the attempt's end: its id is sound, and it has none."""
        try:
            key = check_attempt(attempt)
        except WeirError:
            return False
        return key not in self._running and self.records.get(*key) is None

    def _end(self, attempt: RunningAttempt, terminal: Terminal) -> None:
        del self._running[attempt.key]
        self._places -= attempt.places
        choices: Sequence[Terminal] = ()
        if attempt.choices is not None:
            choices = attempt.choices.ends
            for key in attempt.choices.keys[1:]:
                self._others.pop(key, None)
        record = record_of(terminal, self._worker_id, choices)
        self.records.add(record)
        self._history.note_end(attempt.key)
        attempt.sink.on_terminal(record)
        if waiter := self._waiters.pop(attempt.key, None):
            waiter.set_result(record)
        if not self._running:
            self._idle.set()
        self.observers.ended(attempt, terminal, record)


def attempt_of(key: AttemptKey) -> Attempt:
    """An attempt's key as a message."""
    return Attempt(request_id=key[0], number=key[1])
