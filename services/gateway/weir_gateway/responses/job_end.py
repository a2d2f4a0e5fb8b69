"""What the end of a job means for its response."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import orjson
from sqlalchemy import update
from sqlalchemy.ext.asyncio import AsyncConnection

from weir_gateway.holdings.bounds import Held
from weir_gateway.jobs.job import Job, JobState
from weir_gateway.jobs.tables import jobs
from weir_gateway.responses.job_kind import KIND, response_id_of
from weir_gateway.responses.response_json import ResponseJson, usage_json
from weir_gateway.responses.store import ResponseStore

Tell = Callable[[AsyncConnection, str, str, Mapping[str, Any]], Awaitable[object]]
"""Queues a webhook: connection, tenant, type of event, data."""

_CODES = {"RATE_LIMIT_EXCEEDED", "TOKEN_LIMIT_EXCEEDED", "BUDGET_EXHAUSTED", "QUOTA_STOPPED"}


class ResponseEnds:
    """Ends responses in the transaction in which their jobs end.

    Args:
        store: of responses.
        tell: queues webhooks.
        retention_s: how long an ended response is kept.
    """

    def __init__(self, store: ResponseStore, tell: Tell, *, retention_s: float) -> None:
        self._store = store
        self._tell = tell
        self._retention_ms = round(retention_s * 1_000)

    async def on_job_end(self, connection: AsyncConnection, job: Job) -> None:
        """A job of any kind has ended; see `JobEnds`."""
        if job.kind != KIND:
            return
        response_id = response_id_of(job.id)
        stored = await self._store.find(connection, job.tenant_id, response_id)
        # Who deletes a response deletes all of it: no second copy stays with its job.
        await connection.execute(
            update(jobs).where(jobs.c.id == job.id).values(body=b"", result=b"")
        )
        if stored is None:
            return
        response = _ended(job, stored.response)
        kind = f"response.{response['status']}"
        sequence = await self._store.next_sequence(connection, job.tenant_id, response_id)
        event = {"type": kind, "response": response, "sequence_number": sequence}
        # The row before its events, and both before they are counted: see `HoldingCounts`.
        size = await self._store.change_in(
            connection,
            job.tenant_id,
            response_id,
            response,
            expires_ms=job.ended_ms + self._retention_ms,
        )
        if size is None:
            return
        size += await self._store.add_events(connection, job.tenant_id, response_id, [event])
        await self._store.count(connection, job.tenant_id, Held(size=size), bounded=False)
        await self._tell(connection, job.tenant_id, kind, {"id": response_id})


def _ended(job: Job, begun: Mapping[str, Any]) -> ResponseJson:
    if job.state is JobState.SUCCEEDED:
        response: ResponseJson = orjson.loads(job.result)
        return response
    usage = usage_json(job.usage) if job.usage.prompt_tokens else None
    if job.state is JobState.CANCELLED:
        return {**begun, "status": "cancelled", "usage": usage}
    message = job.error_message or "it had not ended when its time was over"
    code = "rate_limit_exceeded" if job.error_reason in _CODES else "server_error"
    error = {"code": code, "message": message, "reason": job.error_reason or "DEADLINE_EXCEEDED"}
    return {**begun, "status": "failed", "usage": usage, "error": error}
