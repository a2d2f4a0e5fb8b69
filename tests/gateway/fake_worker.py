# ruff: noqa: N802
"""A worker, played by a real gRPC server that does as a test tells it."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from tests.gateway.fake_server import FakeServer, attempt_key, not_played, wire_reason
from weir.common.v1.lifecycle_pb2 import Attempt, TerminalRecord
from weir.common.v1.sampling_pb2 import ChoiceEnd, FinishReason
from weir.common.v1.usage_pb2 import Usage
from weir.worker.v1 import worker_service_pb2 as work
from weir.worker.v1.worker_service_pb2_grpc import (
    WorkerServiceServicer,
    add_WorkerServiceServicer_to_server,
)
from weir_core.errors import Reason, WeirError
from weir_core.rpc.framed import FramedConnection


@dataclass
class Script:
    """What a fake worker does with an attempt.

    Attributes:
        pieces: text of each token; None: as many as allowed.
        token_ids: ids of the tokens; None: 1, 2 and so on.
        field: field that its record names.
        pause_after: tokens after which it waits for `resume`; None: never.
        finish: reason of its end.
        error: reason in its record.
        refuse: REJECTED at once.
        step_s: time between tokens.
        silent: never says anything, not even after an abort.
    """

    pieces: list[str] | None = None
    token_ids: list[int] | None = None
    field: str = ""
    pause_after: int | None = None
    finish: FinishReason.ValueType = FinishReason.FINISH_REASON_LENGTH
    error: Reason | None = None
    refuse: bool = False
    step_s: float = 0.0
    silent: bool = False


class FakeWorker(WorkerServiceServicer):
    """Runs attempts by script, a token an iteration of the loop."""

    Drain = Generate = GetLoad = GetTerminalRecord = staticmethod(not_played)

    def __init__(self, worker_id: str) -> None:
        self.worker_id = worker_id
        self.streams = 0
        self._running: dict[tuple[str, int], _Run] = {}
        self._connections: set[Any] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.reset()
        self.server = FakeServer(lambda s: add_WorkerServiceServicer_to_server(self, s))

    def reset(self) -> None:
        self.script = Script()
        self.resume = asyncio.Event()
        self.specs: list[work.GenerationSpec] = []
        self.aborts: list[Attempt] = []
        self.kv_asked = 0
        self.released: list[tuple[str, str]] = []
        self.records: dict[tuple[str, int], TerminalRecord] = {}

    @property
    def running(self) -> int:
        return len(self._running)

    @property
    def tokens(self) -> int:
        """Made so far by what runs."""
        return sum(run.tokens for run in self._running.values())

    def drop_streams(self) -> None:
        """Breaks every gateway's stream; what ran on it is aborted, as the contract says."""
        for connection in list(self._connections):
            connection.writer.close("dropped by the test", discard=True)

    async def GetKvMap(self, request: work.GetKvMapRequest, context: Any) -> work.GetKvMapResponse:
        held, cached = work.KV_BLOCK_STATE_HELD, work.KV_BLOCK_STATE_CACHED
        told = work.KvMap(
            known=True,
            total_blocks=100,
            block_size=16,
            tenants=["acme", "globex"],
            lengths=[10, 20, 5, 65],
            states=[held, cached, held, work.KV_BLOCK_STATE_FREE],
            owners=[1, 2, 1, 0],
            references=[1, 0, 1, 0],
        )
        self.kv_asked += 1
        # In two parts.
        first = request.first_block
        for name in ("lengths", "states", "owners", "references"):
            column = getattr(told, name)
            del column[: 2 if first else 0]
            del column[2 if not first else 4 :]
        told.next_block = 0 if first else 30
        return work.GetKvMapResponse(map=told)

    async def Execute(  # type: ignore[override]
        self, request_iterator: AsyncIterator[work.ExecuteRequest], context: Any
    ) -> None:
        connection: FramedConnection[Any, work.ExecuteResponse, work.ExecuteRequest] = (
            FramedConnection(coalesce=_worker_frame, ping=work.ExecuteResponse, name="gateway")
        )
        self._connections.add(connection)
        self.streams += 1
        mine: list[_Run] = []

        def on_frame(frame: work.ExecuteRequest) -> None:
            mine.extend(self._start(start.spec, connection) for start in frame.starts)
            for abort in frame.aborts:
                self.aborts.append(abort.attempt)
                run = self._running.get(attempt_key(abort.attempt))
                if run is not None:
                    run.abort()

        try:
            await connection.run(context.write, request_iterator, on_frame)
        finally:
            self._connections.discard(connection)
            for run in mine:
                run.abort()

    async def Abort(self, request: work.AbortRequest, context: Any) -> work.AbortResponse:
        run = self._running.get(attempt_key(request.attempt))
        if run is not None:
            run.abort()
            await run.done.wait()
        record = self.records.get(attempt_key(request.attempt))
        if record is None:
            raise WeirError(Reason.NOT_FOUND, "no such attempt")
        return work.AbortResponse(terminal=record)

    async def ReleaseSession(
        self, request: work.ReleaseSessionRequest, context: Any
    ) -> work.ReleaseSessionResponse:
        self.released.append((request.tenant_id, request.session_id))
        return work.ReleaseSessionResponse()

    async def GetModelInfo(
        self, request: work.GetModelInfoRequest, context: Any
    ) -> work.GetModelInfoResponse:
        response = work.GetModelInfoResponse()
        response.registration.gpu_id = f"gpu-of-{self.worker_id}"
        return response

    def _start(self, spec: work.GenerationSpec, connection: Any) -> "_Run":
        self.specs.append(spec)
        run = _Run(self, spec, connection, self.script)
        self._running[run.key] = run
        task = asyncio.create_task(run.go())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return run

    def ended(self, run: "_Run", record: TerminalRecord) -> None:
        self._running.pop(run.key, None)
        self.records[run.key] = record


class _Run:
    def __init__(
        self, worker: FakeWorker, spec: work.GenerationSpec, connection: Any, script: Script
    ) -> None:
        self.worker, self.spec, self.connection, self.script = worker, spec, connection, script
        self.key = attempt_key(spec.attempt)
        self.done = asyncio.Event()
        self.tokens = 0
        self.answers = max(1, spec.sampling.n)
        self._aborted = asyncio.Event()

    def abort(self) -> None:
        self._aborted.set()

    async def go(self) -> None:
        script = self.script
        if script.silent:
            await self._aborted.wait()
            return
        if script.refuse:
            self._end(FinishReason.FINISH_REASON_REJECTED, prompt=0)
            return
        if self.spec.embed_lengths:
            await self._embed()
            return
        pieces = script.pieces
        if pieces is None:
            pieces = [f"t{n} " for n in range(self.spec.max_new_tokens)]
        for piece in pieces[: self.spec.max_new_tokens]:
            if self.tokens == script.pause_after:
                await self._wait()
            if self._aborted.is_set():
                break
            self._draw(piece)
            await asyncio.sleep(script.step_s)
        if self.tokens == script.pause_after and not self._aborted.is_set():
            await self._wait()
        aborted = self._aborted.is_set()
        self._end(FinishReason.FINISH_REASON_ABORT if aborted else script.finish)

    async def _embed(self) -> None:
        """Of each input its length and its first token."""
        if self.script.pause_after is not None:
            await self._wait()
        if self._aborted.is_set():
            self._end(FinishReason.FINISH_REASON_ABORT)
            return
        start = 0
        for choice, length in enumerate(self.spec.embed_lengths):
            first = self.spec.prompt_token_ids[start]
            start += length
            self._put(
                work.AttemptDelta(
                    attempt=self.spec.attempt, choice=choice, embedding=[length, first, 0.5]
                )
            )
        failed = self.script.error is not None
        self._end(self.script.finish if failed else FinishReason.FINISH_REASON_STOP)

    def _draw(self, piece: str) -> None:
        """One token of each answer; those of answer n are in capitals where n is odd."""
        sampling = self.spec.sampling
        ids = self.script.token_ids
        step = self.tokens // self.answers
        for choice in range(self.answers):
            self.tokens += 1
            delta = work.AttemptDelta(
                attempt=self.spec.attempt,
                token_ids=[ids[step] if ids else step + 1],
                text=piece.upper() if choice % 2 else piece,
                completion_tokens=self.tokens,
                choice=choice,
            )
            if sampling.HasField("logprobs"):
                tops = range(sampling.logprobs)
                delta.logprobs.add(
                    logprob=-0.5, top_ids=[65 + i for i in tops], top_logprobs=[-0.25] * len(tops)
                )
            if sampling.HasField("prompt_logprobs") and self.tokens == 1:
                for _ in self.spec.prompt_token_ids[1:]:
                    delta.prompt_logprobs.add(logprob=-0.75, top_ids=[66], top_logprobs=[-0.125])
            self._put(delta)

    async def _wait(self) -> None:
        resumed = asyncio.ensure_future(self.worker.resume.wait())
        aborted = asyncio.ensure_future(self._aborted.wait())
        await asyncio.wait({resumed, aborted}, return_when=asyncio.FIRST_COMPLETED)
        resumed.cancel()
        aborted.cancel()

    def _end(self, finish: FinishReason.ValueType, prompt: int | None = None) -> None:
        prompt = len(self.spec.prompt_token_ids) if prompt is None else prompt
        reason = self.script.error
        if finish == FinishReason.FINISH_REASON_ABORT:
            reason = Reason.CANCELLED
        record = TerminalRecord(
            attempt=self.spec.attempt,
            tenant_id=self.spec.tenant_id,
            worker_id=self.worker.worker_id,
            finish_reason=finish,
            error_reason=wire_reason(reason),
            error_message="as the test wants" if reason else "",
            error_field=self.script.field,
            usage=Usage(
                prompt_tokens=prompt,
                completion_tokens=self.tokens,
                total_tokens=prompt + self.tokens,
            ),
        )
        if self.answers > 1:
            each = self.tokens // self.answers
            record.choices.extend(
                ChoiceEnd(finish_reason=finish, completion_tokens=each) for _ in range(self.answers)
            )
        record.prefill_start_time.GetCurrentTime()
        self.worker.ended(self, record)
        self.done.set()
        self._put(record)

    def _put(self, item: Any) -> None:
        if not self.connection.writer.closed:
            self.connection.writer.put_control(item)


def _worker_frame(items: Any) -> work.ExecuteResponse:
    return work.ExecuteResponse(
        deltas=[item for item in items if isinstance(item, work.AttemptDelta)],
        terminals=[item for item in items if isinstance(item, TerminalRecord)],
    )
