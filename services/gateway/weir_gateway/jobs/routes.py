"""`/v1/jobs` over HTTP."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractContextManager, aclosing
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from weir_core.clock import Clock
from weir_core.errors import InvalidField, WeirError
from weir_core.errors.openai import to_body
from weir_core.ids import new_request_id
from weir_gateway.caller.caller import Caller
from weir_gateway.flow.reception import Reception
from weir_gateway.holdings.open_streams import OpenStreams
from weir_gateway.jobs.desk import JobDesk
from weir_gateway.jobs.job import JobState
from weir_gateway.jobs.json_form import ENDPOINTS, job_json
from weir_gateway.jobs.kind import JobKinds
from weir_gateway.jobs.submission import Submission
from weir_gateway.openai.answer_format import DONE, PING
from weir_gateway.openai.fields import Fields
from weir_gateway.openai.query import PAGE, Query
from weir_gateway.openai.whole_body import read_object

_CHAT = "/v1/chat/completions"
_STREAM_HEADERS = {"cache-control": "no-cache", "x-accel-buffering": "no"}


class _PlacedResponse(StreamingResponse):
    """A stream that is refused before its headers if there is no place for it.

    Args:
        place: entered while it is sent, whatever ends it.
        parts: of `StreamingResponse`.
    """

    def __init__(self, place: AbstractContextManager[None], *parts: Any, **named: Any) -> None:
        super().__init__(*parts, **named)
        self._place = place

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._place:
            await super().__call__(scope, receive, send)


class JobRoutes:
    """The handlers.

    Args:
        reception, desk, kinds: see `JobServicer`.
        clock: for ids.
        max_body: bytes.
        ping_s: silence after which a stream of events gets a comment.
        streams: has places for streams of events.
    """

    def __init__(
        self,
        reception: Reception,
        desk: JobDesk,
        kinds: JobKinds,
        clock: Clock,
        *,
        max_body: int,
        ping_s: float,
        streams: OpenStreams,
    ) -> None:
        self._reception = reception
        self._desk = desk
        self._kinds = kinds
        self._clock = clock
        self._max_body = max_body
        self._ping_s = ping_s
        self._streams = streams

    def routes(self) -> list[Route]:
        """What the HTTP door serves."""
        return [
            Route("/v1/jobs", self.submit, methods=["POST"]),
            Route("/v1/jobs", self.list, methods=["GET"]),
            Route("/v1/jobs/{id}", self.get, methods=["GET"]),
            Route("/v1/jobs/{id}/cancel", self.cancel, methods=["POST"]),
            Route("/v1/jobs/{id}/events", self.events, methods=["GET"]),
        ]

    async def submit(self, request: Request) -> Response:
        """`POST /v1/jobs`: 202 with the job."""
        caller = self._caller(request)
        fields = Fields(await read_object(request, self._max_body))
        kind = fields.choice("endpoint", ENDPOINTS, ENDPOINTS[_CHAT])
        inner = fields.raw("body")
        webhook_url = fields.text("webhook_url")
        fields.refuse_unknown()
        if not isinstance(inner, dict):
            raise InvalidField("body", None, "an object: the body of a request to `endpoint`")
        body = json.dumps(inner).encode()
        submission = Submission(
            kind=kind,
            body=body,
            parse=lambda: self._kinds.of(kind).parse(body),
            webhook_url=webhook_url,
            idempotency_key=request.headers.get("idempotency-key", ""),
        )
        submitted = await self._desk.submit(caller, submission)
        replayed = {"idempotent-replayed": "true"} if submitted.replayed else {}
        return self._reply(job_json(submitted.job, self._kinds), 202, replayed)

    async def list(self, request: Request) -> Response:
        """`GET /v1/jobs`."""
        caller = self._caller(request)
        query = Query(request.query_params, ("status", *PAGE))
        state = query.choice("status", ("", *JobState), default="")
        found, token = await self._desk.page(
            caller, *query.page(), JobState(state) if state else None
        )
        data = [job_json(job, self._kinds) for job in found]
        return self._reply({"object": "list", "data": data, "next_page_token": token})

    async def get(self, request: Request) -> Response:
        """`GET /v1/jobs/{id}`."""
        job = await self._desk.get(self._caller(request), request.path_params["id"])
        return self._reply(job_json(job, self._kinds))

    async def cancel(self, request: Request) -> Response:
        """`POST /v1/jobs/{id}/cancel`."""
        job = await self._desk.cancel(self._caller(request), request.path_params["id"])
        return self._reply(job_json(job, self._kinds))

    async def events(self, request: Request) -> Response:
        """`GET /v1/jobs/{id}/events`: the job at once, then each change, as server-sent events."""
        caller, job_id = self._caller(request), request.path_params["id"]
        # What refuses it is told by a status.
        await self._desk.get(caller, job_id)
        headers = _STREAM_HEADERS | {"x-request-id": new_request_id(self._clock)}
        return _PlacedResponse(
            self._streams.place(caller),
            self._events(caller, job_id),
            media_type="text/event-stream",
            headers=headers,
        )

    async def _events(self, caller: Caller, job_id: str) -> AsyncIterator[bytes]:
        try:
            async with aclosing(self._desk.watch(caller, job_id, self._ping_s)) as changes:
                async for job in changes:
                    yield PING if job is None else _event(job_json(job, self._kinds))
        except WeirError as error:
            yield _event(to_body(error))
        yield DONE

    def _caller(self, request: Request) -> Caller:
        return self._reception.let_in(request.headers.get("authorization"))

    def _reply(
        self, body: dict[str, Any], status: int = 200, headers: Mapping[str, str] | None = None
    ) -> Response:
        own = {"x-request-id": new_request_id(self._clock)}
        return JSONResponse(body, status_code=status, headers=own | dict(headers or {}))


def _event(value: dict[str, Any]) -> bytes:
    return b"data: " + orjson.dumps(value) + b"\n\n"
