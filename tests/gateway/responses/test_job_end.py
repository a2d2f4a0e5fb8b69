"""What the end of a job does to its response, in one transaction: object, last event, webhook."""

from collections.abc import Mapping
from typing import Any

import orjson
import pytest
from sqlalchemy.ext.asyncio import AsyncConnection

from weir.common.v1.usage_pb2 import Usage
from weir_gateway.jobs.job import Job, JobState
from weir_gateway.responses.job_end import ResponseEnds
from weir_gateway.responses.store import ResponseStore, StoredResponse
from weir_gateway.state.state import State

pytestmark = pytest.mark.asyncio
HEX = "1" * 32
RESPONSE = f"resp_{HEX}"


def response_id(at: int) -> str:
    return f"resp_{at:032x}"


def job_of(state: JobState, **fields: Any) -> Job:
    values: dict[str, Any] = {
        "id": f"job_{HEX}",
        "tenant_id": "acme",
        "user_id": "alice",
        "api_key_id": "k",
        "kind": "response",
        "model": "tiny",
        "body": b"",
        "created_ms": 1,
        "deadline_ms": 2,
        "ended_ms": 7_000,
        "state": state,
    }
    return Job(**(values | fields))


@pytest.mark.parametrize(
    ("job", "status"),
    [
        (
            job_of(
                JobState.SUCCEEDED,
                result=orjson.dumps({"status": "completed", "output": [1]}),
            ),
            "completed",
        ),
        (
            job_of(JobState.SUCCEEDED, result=orjson.dumps({"status": "incomplete"})),
            "incomplete",
        ),
        (job_of(JobState.FAILED, error_reason="ENGINE_FAILED", error_message="broken"), "failed"),
        (
            job_of(JobState.CANCELLED, usage=Usage(prompt_tokens=3, completion_tokens=2)),
            "cancelled",
        ),
        (job_of(JobState.EXPIRED), "failed"),
    ],
)
async def test_every_end(state: State, job: Job, status: str) -> None:
    told: list[tuple[str, str, Mapping[str, Any]]] = []

    async def tell(_: AsyncConnection, tenant_id: str, kind: str, data: Mapping[str, Any]) -> None:
        told.append((tenant_id, kind, data))

    store = ResponseStore(state)
    ends = ResponseEnds(store, tell, retention_s=60)
    begun: dict[str, Any] = {"id": RESPONSE, "status": "queued", "output": [], "error": None}
    stored = StoredResponse(
        tenant_id="acme",
        id=RESPONSE,
        created_ms=1,
        expires_ms=10,
        chain_id=RESPONSE,
        background=True,
        response=begun,
        items=[],
    )
    await store.add(stored)
    async with state.writing() as connection:
        events = [{"type": "response.created", "sequence_number": 0}]
        await store.add_events(connection, "acme", RESPONSE, events)
        await ends.on_job_end(connection, job)
        # A response that was deleted meanwhile, and jobs of other kinds, are no matter of it.
        await ends.on_job_end(connection, job_of(job.state, id="job_2"))
        await ends.on_job_end(connection, job_of(job.state, kind="chat"))
    kept = await store.get("acme", RESPONSE, "response_id")
    response = kept.response
    assert kept.expires_ms == 67_000
    assert response["status"] == status
    assert told == [("acme", f"response.{status}", {"id": RESPONSE})]
    (last,) = await store.events("acme", RESPONSE, after=0, limit=10)
    assert (last["type"], last["sequence_number"]) == (f"response.{status}", 1)
    assert last["response"] == response
    if status == "failed":
        assert response["error"]["message"]
        assert response["error"]["code"] == "server_error"
    if status == "cancelled":
        assert response["usage"]["output_tokens"] == 2


async def test_what_was_kept_long_enough_is_removed_with_its_events(state: State) -> None:
    store = ResponseStore(state)
    for at in range(3):
        stored = StoredResponse(
            tenant_id="acme",
            id=response_id(at),
            created_ms=1,
            expires_ms=10 * at,
            chain_id="",
            background=True,
            response={"status": "completed"},
            items=[],
        )
        await store.add(stored)
        async with state.writing() as connection:
            await store.add_events(connection, "acme", stored.id, [{"sequence_number": 0}])
    assert await store.remove_expired(10) == 2
    assert await store.remove_expired(10) == 0
    left = [at for at in range(3) if await store.events("acme", response_id(at), after=-1, limit=9)]
    assert left == [2]
