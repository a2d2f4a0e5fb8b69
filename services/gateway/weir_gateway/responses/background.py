"""Responses in the background: taken as jobs, told as they are made, cancelled."""

import asyncio
import secrets
from collections.abc import Mapping
from typing import Any

import orjson

from weir_core.clock import Clock
from weir_core.errors import Reason, WeirError
from weir_core.ids import new_request_id
from weir_gateway.caller.caller import Caller
from weir_gateway.flow.reception import Reception
from weir_gateway.holdings.bounds import Held
from weir_gateway.intake.preparer import Preparer
from weir_gateway.jobs.enqueued import most_enqueued
from weir_gateway.jobs.job import Job, JobState
from weir_gateway.jobs.room import JobRoom
from weir_gateway.openai.exchange import Exchange
from weir_gateway.responses.event_stream import EventStream
from weir_gateway.responses.job_kind import KIND, in_background, job_body, job_id_of
from weir_gateway.responses.keeper import Keeper
from weir_gateway.responses.request import ResponseRequest
from weir_gateway.responses.response_json import ENDED, ResponseJson, begun
from weir_gateway.responses.store import ResponseStore, StoredResponse
from weir_gateway.state.state import State

_LOOK_S = 0.1
_SEEDS = 2**31


class Background:
    """Takes requests and looks after them.

    Args:
        state: the database.
        store, jobs, keeper, reception, preparer: see there.
        stream: tells the events of a response.
        clock: wall time.
        window_s: a response that has not ended by then fails.
        cancel_s: how long a cancellation waits for its end.
    """

    def __init__(
        self,
        state: State,
        *,
        store: ResponseStore,
        jobs: JobRoom,
        keeper: Keeper,
        reception: Reception,
        preparer: Preparer,
        stream: EventStream,
        clock: Clock,
        window_s: float,
        cancel_s: float,
    ) -> None:
        self._state = state
        self._store = store
        self._jobs = jobs
        self._keeper = keeper
        self._reception = reception
        self._preparer = preparer
        self._stream = stream
        self._clock = clock
        self._window_ms = round(window_s * 1_000)
        self._cancel_s = cancel_s

    async def accept(
        self, exchange: Exchange, caller: Caller, request: ResponseRequest, body: dict[str, Any]
    ) -> None:
        """Queues a request and answers at once, or with its events.

        Raises:
            WeirError: what a request in the foreground would be refused with, but for limits;
                ENQUEUED_TOKENS_EXCEEDED; STORAGE_EXCEEDED; there is no place for its stream.
        """
        self._reception.check_rate(caller)
        prepared = await self._preparer.prepare(caller, in_background(request.request))
        now_ms = self._clock.now_ms()
        response = begun(request, prepared, created_s=now_ms // 1_000, status="queued")
        job_id = job_id_of(request.id)
        job = Job(
            id=job_id,
            tenant_id=caller.tenant_id,
            user_id=caller.user_id,
            api_key_id=caller.key_id,
            kind=KIND,
            model=prepared.subject.model,
            body=job_body(request, body | {"seed": _seed(body)}),
            created_ms=now_ms,
            deadline_ms=now_ms + self._window_ms,
            enqueued_tokens=prepared.prompt_tokens + prepared.output_tokens,
            traceparent=self._jobs.submissions.of_job(job_id, caller, prepared.subject.model),
        )
        request_id = (b"x-request-id", new_request_id(self._clock).encode())
        if request.request.stream:
            with self._stream.place(caller):
                await self._write(caller, request, response, job)
                await self._stream.send(exchange, caller, request.id, -1, [request_id])
        else:
            await self._write(caller, request, response, job)
            await exchange.reply(200, orjson.dumps(response), [request_id])

    async def _write(
        self, caller: Caller, request: ResponseRequest, response: ResponseJson, job: Job
    ) -> None:
        """Keeps the response that is to be made, with its job. Raises WeirError."""
        kinds = ("response.created", "response.queued")
        events = [
            {"type": kind, "sequence_number": at, "response": response}
            for at, kind in enumerate(kinds)
        ]
        tenant_id = caller.tenant_id
        stored = self._keeper.stored(tenant_id, request, response, ends_ms=job.deadline_ms)
        async with self._state.writing() as connection:
            size = await self._store.add_in(connection, stored)
            size += await self._store.add_events(connection, tenant_id, request.id, events)
            await self._store.count(connection, tenant_id, Held(1, size), bounded=True)
            most = most_enqueued(caller.policy.batch)
            await self._jobs.store.add_one(connection, job, most_tokens=most)
        self._jobs.wake()

    async def shown(self, stored: StoredResponse) -> ResponseJson:
        """A response as it is now: of one that has not ended its job knows."""
        response = dict(stored.response)
        if not stored.background or response["status"] in ENDED:
            return response
        job = await self._job(stored)
        if job is not None and job.state is JobState.RUNNING:
            response["status"] = "in_progress"
        return response

    async def cancel(self, stored: StoredResponse) -> ResponseJson:
        """Ends a response that has not ended, charged for what ran; else changes nothing.

        Raises:
            WeirError: STATE_CONFLICT, it is not made in the background.
        """
        if not stored.background:
            raise WeirError(
                Reason.STATE_CONFLICT,
                "only responses with background: true can be cancelled; close the connection of "
                "another to end it",
                field="response_id",
            )
        if stored.response["status"] not in ENDED:
            await self._end_job(stored)
            stored = await self._ended(stored)
        return await self.shown(stored)

    async def delete(self, stored: StoredResponse) -> None:
        """Removes a response; one that has not ended is ended first. Raises WeirError."""
        if stored.background and stored.response["status"] not in ENDED:
            await self._end_job(stored)
        await self._store.delete(stored.tenant_id, stored.id)

    async def _end_job(self, stored: StoredResponse) -> None:
        try:
            await self._jobs.store.cancel(stored.tenant_id, job_id_of(stored.id))
        except WeirError as error:
            if error.reason is not Reason.JOB_NOT_FOUND:
                raise

    async def _ended(self, stored: StoredResponse) -> StoredResponse:
        """The response once it has ended, or as it is after a while."""
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + self._cancel_s
        while True:
            now = await self._store.get(stored.tenant_id, stored.id, "response_id")
            if now.response["status"] in ENDED or loop.time() >= ends_at:
                return now
            await asyncio.sleep(_LOOK_S)

    async def _job(self, stored: StoredResponse) -> Job | None:
        try:
            return await self._jobs.store.get(stored.tenant_id, job_id_of(stored.id))
        except WeirError as error:
            if error.reason is not Reason.JOB_NOT_FOUND:
                raise
            return None


def _seed(body: Mapping[str, Any]) -> int:
    """A seed for one that has none: should it be made again, it is the same."""
    seed = body.get("seed")
    return secrets.randbelow(_SEEDS) if seed is None else int(seed)
