"""Reads an input file from end to end before anything of it runs."""

import asyncio
import hashlib
from array import array
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

from weir_core.clock import Clock
from weir_core.errors import WeirError
from weir_gateway.batches.batch import Batch, BatchError
from weir_gateway.batches.endpoints import kind_of
from weir_gateway.batches.input_lines import InputLine, input_lines
from weir_gateway.batches.line import BadLine, BatchLine, read_line
from weir_gateway.batches.line_cost import LineCost
from weir_gateway.batches.pace import Pace
from weir_gateway.caller.caller import Caller
from weir_gateway.files.file_store import FileStore
from weir_gateway.intake.generation_request import GenerationRequest
from weir_gateway.jobs.kind import JobKind, JobKinds

MOST_LINES = 50_000

_MOST_ERRORS = 100
_PART = 0.3
_BEAT_US = 2_000_000
_LARGE = 65_536
_DIGEST = 16
_PASSES = 500

Beat = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Checked:
    """An input file in order.

    Attributes:
        model: of all lines, by its public name.
        tokens: of each line, in their order.
    """

    model: str
    tokens: "array[int]"


class Validator:
    """See the module. Of the lines it keeps a digest of each custom_id and a count of tokens.

    Args:
        files: where input is.
        kinds: of jobs.
        cost: tokens of a line.
        clock: time.
        longest: bytes of a line.
    """

    def __init__(
        self, *, files: FileStore, kinds: JobKinds, cost: LineCost, clock: Clock, longest: int
    ) -> None:
        self._files = files
        self._kinds = kinds
        self._cost = cost
        self._clock = clock
        self._longest = longest
        self._pace = Pace(clock, part=_PART)

    async def check(
        self, batch: Batch, caller: Caller, beat: Beat
    ) -> Checked | tuple[BatchError, ...]:
        """What the input comes to, or what is wrong with it: of the first 100 bad lines.

        Args:
            batch: whose input.
            caller: its owner, as of now.
            beat: called every few seconds.

        Raises:
            WeirError: the input cannot be read now.
        """
        reading = _Reading(batch.endpoint, self._longest)
        kind = kind_of(batch.endpoint, self._kinds)
        tokens = array("Q")
        heart = _Heart(beat, self._clock)
        model = ""
        chunks = heart.through(self._files.chunks_of(batch.input_file_id))
        with self._pace.worker() as pace:
            async for line in input_lines(chunks, self._longest):
                await heart.pulse()
                pace.begin()
                found = await _on_loop_or_off(line, reading)
                if found is not None and not reading.errors:
                    model = model or self._model(caller, found, line, reading)
                    tokens.append(await self._tokens(caller, kind, found))
                await pace.end()
                if reading.full:
                    break
        if not reading.errors and not tokens:
            reading.errors.append(BatchError("empty_file", "the input file holds no request"))
        return tuple(reading.errors) or Checked(model, tokens)

    def _model(self, caller: Caller, found: BatchLine, line: InputLine, reading: "_Reading") -> str:
        try:
            return self._cost.model_name(caller, found.model)
        except WeirError as error:
            reading.errors.append(
                BatchError(error.wire.code, error.message, line.number, "body.model")
            )
            return ""

    async def _tokens(self, caller: Caller, kind: JobKind, line: BatchLine) -> int:
        try:
            return await self._cost.tokens(caller, await _parsed(kind, line.body))
        except WeirError as error:
            if error.wire.http >= _PASSES:
                raise
            # The line gets its own error when it runs: it is no fault of the file.
            return 0


class _Heart:
    """Beats now and then while a file is read, also where it holds no line for long."""

    def __init__(self, beat: Beat, clock: Clock) -> None:
        self._beat = beat
        self._clock = clock
        self._beaten_us = clock.monotonic_us()

    async def pulse(self) -> None:
        """Beats if it is time."""
        if self._clock.monotonic_us() - self._beaten_us > _BEAT_US:
            await self._beat()
            self._beaten_us = self._clock.monotonic_us()

    async def through(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Chunks as they come."""
        async for chunk in chunks:
            await self.pulse()
            yield chunk


class _Reading:
    """What is known of the lines so far."""

    def __init__(self, endpoint: str, longest: int) -> None:
        self.errors: list[BatchError] = []
        self._endpoint = endpoint
        self._longest = longest
        self._model = ""
        self._lines: dict[bytes, int] = {}
        self._count = 0

    @property
    def full(self) -> bool:
        """Whether reading on would tell nothing more."""
        return len(self.errors) >= _MOST_ERRORS or self._count > MOST_LINES

    def take(self, line: InputLine) -> BatchLine | None:
        """The request of a line; None if there is something wrong with it."""
        self._count += 1
        try:
            if self._count > MOST_LINES:
                raise BadLine(
                    "too_many_tasks", f"the file has more than {MOST_LINES} requests; split it"
                )
            found = read_line(line, self._endpoint, self._longest)
            self._check_new(found, line.number)
            self._check_model(found)
        except BadLine as bad:
            self.errors.append(bad.at(line.number))
            return None
        return found

    def _check_new(self, found: BatchLine, number: int) -> None:
        digest = hashlib.blake2b(found.custom_id.encode(), digest_size=_DIGEST).digest()
        first = self._lines.setdefault(digest, number)
        if first != number:
            raise BadLine(
                "duplicate_custom_id",
                f"the custom_id {found.custom_id[:64]!r} is that of line {first} already",
                "custom_id",
            )

    def _check_model(self, found: BatchLine) -> None:
        self._model = self._model or found.model
        if found.model != self._model:
            raise BadLine(
                "mismatched_model",
                f"body.model is {found.model[:64]!r}; all lines of a batch must name one, here "
                f"{self._model[:64]!r}",
                "body.model",
            )


async def _on_loop_or_off(line: InputLine, reading: _Reading) -> BatchLine | None:
    if line.size > _LARGE:
        return await asyncio.to_thread(reading.take, line)
    return reading.take(line)


async def _parsed(kind: JobKind, body: bytes) -> GenerationRequest:
    if len(body) > _LARGE:
        return await asyncio.to_thread(kind.parse, body)
    return kind.parse(body)
