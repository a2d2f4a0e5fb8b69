"""The next step of a batch, whatever state it is in."""

from dataclasses import replace

from weir_core.clock import Clock
from weir_core.errors import Reason, WeirError
from weir_core.telemetry.logs import get_logger
from weir_gateway.batches.batch import Batch, BatchError, BatchState
from weir_gateway.batches.finalising import BatchListener, Finaliser
from weir_gateway.batches.insertion import Inserter
from weir_gateway.batches.lease import BatchLease
from weir_gateway.batches.rows import errors_text
from weir_gateway.batches.validation import Checked, Validator
from weir_gateway.caller.caller import Caller
from weir_gateway.files.file_store import FileStore
from weir_gateway.flow.reception import Reception
from weir_gateway.jobs.enqueued import most_enqueued
from weir_gateway.jobs.job import JobState
from weir_gateway.jobs.store import JobStore
from weir_gateway.state.state import State

_log = get_logger(__name__)

_SHORTEST_LOOK_MS, _LONGEST_LOOK_MS = 300, 5_000
_LINES_PER_LOOK_MS = 10
_CANCELLED = 200
_PASSES = 500


class BatchSteps:
    """Carries batches on. Each step is one transaction or can be done again.

    Args:
        state: the database.
        reception: knows who may call.
        files, jobs: what is kept.
        validator, inserter, finaliser: the steps.
        clock: time.
        ended: told of the end of a batch that has no output.
    """

    def __init__(
        self,
        *,
        state: State,
        reception: Reception,
        files: FileStore,
        jobs: JobStore,
        validator: Validator,
        inserter: Inserter,
        finaliser: Finaliser,
        clock: Clock,
        ended: BatchListener,
    ) -> None:
        self._state = state
        self._reception = reception
        self._files = files
        self._jobs = jobs
        self._validator = validator
        self._inserter = inserter
        self._finaliser = finaliser
        self._clock = clock
        self._ended = ended

    async def advance(self, batch: Batch, lease: BatchLease) -> int:
        """Makes the next step; the milliseconds until the one after it.

        Raises:
            LeaseLost: somebody else has it now.
            WeirError: it cannot be made now.
        """
        if batch.state is BatchState.VALIDATING:
            await self._validate(batch, lease)
        elif await self._cancelled_some(batch, lease):
            pass
        elif batch.total == 0:
            await self._end_early(batch, lease, BatchState.CANCELLED)
        elif batch.inserted < batch.total:
            await self._inserter.insert_slice(batch, lease)
        elif not batch.output_file_id:
            return await self._look(batch, lease)
        elif batch.written < batch.total:
            await self._finaliser.write_slice(batch, lease)
        else:
            await self._finaliser.end(batch, lease)
            await self._forget_lines(batch)
        return 0

    async def _validate(self, batch: Batch, lease: BatchLease) -> None:
        if self._clock.now_ms() >= batch.deadline_ms:
            await self._end_early(batch, lease, BatchState.EXPIRED)
            return

        async def beat() -> None:
            async with self._state.writing() as connection:
                await lease.write(connection, seen=BatchState.VALIDATING)

        try:
            caller = self._reception.standing(batch.tenant_id, batch.api_key_id)
            found = await self._validator.check(batch, caller, beat)
        except WeirError as error:
            if error.wire.http >= _PASSES:
                raise
            found = (BatchError(error.wire.code, error.message),)
        if isinstance(found, Checked):
            await self._accept(batch, lease, caller, found)
        else:
            await self._end_early(replace(batch, errors=found), lease, BatchState.FAILED)

    async def _accept(
        self, batch: Batch, lease: BatchLease, caller: Caller, checked: Checked
    ) -> None:
        requested, most = sum(checked.tokens), most_enqueued(caller.policy.batch)
        async with self._state.writing() as connection:
            model = checked.model
            used = await self._jobs.enqueued_tokens(connection, batch.tenant_id, model)
            if used + requested <= most:
                await lease.write(
                    connection,
                    seen=BatchState.VALIDATING,
                    state=BatchState.IN_PROGRESS.value,
                    in_progress_ms=self._clock.now_ms(),
                    model=model,
                    total=len(checked.tokens),
                    enqueued_tokens=requested,
                    line_tokens=checked.tokens.tobytes(),
                )
                return
        refusal = _too_many(model, most, used, requested)
        await self._end_early(
            replace(batch, model=model, errors=(refusal,)), lease, BatchState.FAILED
        )

    async def _cancelled_some(self, batch: Batch, lease: BatchLease) -> bool:
        """Whether some lines went on after their batch was cancelled, and were cancelled now."""
        if batch.state is not BatchState.CANCELLING or batch.output_file_id:
            return False
        async with self._state.writing() as connection:
            await lease.write(connection, seen=BatchState.CANCELLING)
            changed = await self._jobs.cancel_lines(
                connection, batch.tenant_id, batch.id, most=_CANCELLED
            )
        return changed > 0

    async def _look(self, batch: Batch, lease: BatchLease) -> int:
        counts = await self._jobs.counts(batch.id)
        if counts.get(JobState.QUEUED, 0) or counts.get(JobState.RUNNING, 0):
            wait_ms = batch.total // _LINES_PER_LOOK_MS
            return min(_LONGEST_LOOK_MS, max(_SHORTEST_LOOK_MS, wait_ms))
        await self._finaliser.begin(batch, lease, counts)
        return 0

    async def _end_early(self, batch: Batch, lease: BatchLease, state: BatchState) -> None:
        """Ends a batch of which no line is a job."""
        now_ms = self._clock.now_ms()
        async with self._state.writing() as connection:
            await lease.write(
                connection,
                seen=batch.state,
                state=state.value,
                ended_ms=now_ms,
                model=batch.model,
                errors=errors_text(batch.errors),
            )
            await self._files.let_go(connection, batch.input_file_id)
            await self._ended(connection, replace(batch, state=state, ended_ms=now_ms))

    async def _forget_lines(self, batch: Batch) -> None:
        """What they came to is in the files."""
        try:
            await self._jobs.drop_lines(batch.tenant_id, batch.id)
        except WeirError as error:
            # The sweep drops them.
            _log.warning("batch_lines_kept", batch_id=batch.id, reason=error.reason)


def _too_many(model: str, limit: int, used: int, requested: int) -> BatchError:
    return BatchError(
        "token_limit_exceeded",
        f"{Reason.ENQUEUED_TOKENS_EXCEEDED}: at most {limit} tokens of offline work on {model} may "
        f"wait at once; {used} do, and this batch has {requested}; send it when earlier jobs and "
        "batches have ended, split it, or have batch.max_enqueued_tokens of your policy raised",
    )
