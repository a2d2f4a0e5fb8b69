"""Background responses as a kind of jobs."""

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import orjson

from weir_core.clock import Clock
from weir_core.errors import InvalidField
from weir_gateway.flow.delivery import Piece
from weir_gateway.flow.ending import Ending
from weir_gateway.flow.live_request import LiveRequest
from weir_gateway.intake.generation_request import GenerationRequest
from weir_gateway.intake.shape import Shape
from weir_gateway.jobs.job import Job
from weir_gateway.jobs.kind import JobRecorder
from weir_gateway.jobs.kinds.offline import offline
from weir_gateway.responses.body import response_request
from weir_gateway.responses.event_writer import EventWriter
from weir_gateway.responses.items import text_of
from weir_gateway.responses.output_items import Event, OutputItems
from weir_gateway.responses.request import ResponseRequest
from weir_gateway.responses.response_json import begun, ended, status_of
from weir_gateway.responses.store import ResponseStore
from weir_gateway.state.state import State

KIND = "response"

_FIRST_EVENT = 2
_WRITE_S = 0.2


def job_id_of(response_id: str) -> str:
    """The job that makes a response."""
    return f"job_{response_id.removeprefix('resp_')}"


def response_id_of(job_id: str) -> str:
    """The response that a job makes."""
    return f"resp_{job_id.removeprefix('job_')}"


def in_background(request: GenerationRequest) -> GenerationRequest:
    """The request of a job, streamed if it is to be. Raises WeirError: it asks for a session."""
    return replace(offline(replace(request, stream=False)), stream=request.stream)


def job_body(request: ResponseRequest, body: dict[str, Any]) -> bytes:
    """All that a job needs to make a response, whatever becomes of the one before it.

    Raises:
        InvalidField: something that is taken without effect cannot be written again.
    """
    own = len(request.items) - len(response_request(body, request.id).items)
    before = list(request.items[:own])
    kept = {"id": request.id, "body": body, "before": before, "chain_id": request.chain_id}
    try:
        return orjson.dumps(kept)
    except (TypeError, ValueError, RecursionError):
        raise InvalidField("body", Shape(body), "JSON that can be written again") from None


def request_of(body: bytes) -> ResponseRequest:
    """The request of a job. Raises WeirError."""
    kept = orjson.loads(body)
    request = response_request(kept["body"], kept["id"])
    return request.after(kept["before"], kept["chain_id"]) if kept["before"] else request


class ResponseJobs:
    """See `JobKind`.

    Args:
        state, store: where events are kept.
        clock: wall time.
    """

    def __init__(self, state: State, store: ResponseStore, clock: Clock) -> None:
        self._state = state
        self._store = store
        self._clock = clock

    def parse(self, body: bytes) -> GenerationRequest:
        """The request of a job. Raises WeirError."""
        return in_background(request_of(body).request)

    def text(self, result: bytes) -> str:
        """The text of the answer; nothing once it is kept with its response alone."""
        if not result:
            return ""
        items = orjson.loads(result)["output"]
        return "".join(text_of(item["content"]) for item in items if item["type"] == "message")

    def recorder(self, job: Job, live: LiveRequest) -> JobRecorder:
        """Of one attempt."""
        request = request_of(job.body)
        writer = EventWriter(
            self._state, self._store, job.tenant_id, request.id, first=_FIRST_EVENT
        )
        return _Recorder(job, live, request, writer, self._clock)


class _Recorder:
    """Writes events as they come, some at a time; the job's end writes the last."""

    def __init__(
        self,
        job: Job,
        live: LiveRequest,
        request: ResponseRequest,
        writer: EventWriter,
        clock: Clock,
    ) -> None:
        created_s = job.created_ms // 1_000
        self._begun = begun(request, live.prepared, created_s=created_s, status="in_progress")
        self._items = OutputItems(live.prepared, request.id)
        self._writer = writer
        self._clock = clock
        self._unwritten: list[Event] = [{"type": "response.in_progress", "response": self._begun}]
        self._written_at = 0.0

    async def pieces(self, pieces: Sequence[Piece]) -> None:
        """New text. Raises WeirError."""
        for piece in pieces:
            self._unwritten += self._items.feed(piece)
        if time.monotonic() - self._written_at >= _WRITE_S:
            await self._write()

    async def finish(self, ending: Ending) -> bytes:
        """The response as it ended. Raises WeirError."""
        complete = status_of(ending) == "completed"
        self._unwritten += self._items.finish("completed" if complete else "incomplete")
        await self._write()
        now_s = self._clock.now_us() // 1_000_000
        return orjson.dumps(ended(self._begun, ending, self._items.items, now_s))

    async def _write(self) -> None:
        unwritten, self._unwritten = self._unwritten, []
        await self._writer.write(unwritten)
        self._written_at = time.monotonic()
