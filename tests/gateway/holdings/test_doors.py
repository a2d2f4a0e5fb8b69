"""Bounds as callers of a gateway meet them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import grpc
import openai
import pytest
import pytest_asyncio

from tests.gateway.fake_worker import Script
from tests.gateway.harness import MODEL, Gateway, running_gateway
from weir.gateway.v1 import job_service_pb2 as pb
from weir.gateway.v1.job_service_pb2_grpc import JobServiceStub
from weir_core.errors import Reason
from weir_core.errors.status import from_rpc_error

pytestmark = pytest.mark.asyncio(loop_scope="module")
KEEP = {
    "max_event_streams": 2,
    "max_responses": 2,
    "max_idempotency_keys": 2,
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Gateway]:
    """A gateway whose first tenant may keep little."""
    folder = tmp_path_factory.mktemp("bounds")

    def change(document: dict[str, Any]) -> None:
        document["tenants"][0].setdefault("policy", {})["keep"] = KEEP

    async with running_gateway(
        folder, state_url=f"sqlite:///{folder}/state.sqlite", change=change
    ) as gateway:
        yield gateway


async def test_streams_of_jobs_and_responses_share_the_places_of_a_tenant(site: Gateway) -> None:
    client, stub = site.openai(), JobServiceStub(site.channel)
    site.worker.script = Script(pause_after=1)
    begun = await client.responses.create(model=MODEL, input="hi", background=True)
    body = {"body": {"model": MODEL, "messages": [{"role": "user", "content": "hi"}]}}
    headers = {"authorization": f"Bearer {site.key.secret}"}
    job = (await site.http.post("/v1/jobs", json=body, headers=headers)).json()
    events = f"/v1/jobs/{job['id']}/events"

    def watch() -> Any:
        return stub.WatchJob(
            pb.WatchJobRequest(job_id=job["id"]), metadata=site.metadata, timeout=20
        )

    async with AsyncExitStack() as open_ones:
        stream = await client.responses.retrieve(begun.id, stream=True)
        await anext(aiter(stream))
        response = await open_ones.enter_async_context(
            site.http.stream("GET", events, headers=headers)
        )
        assert response.status_code == 200
        refused = await site.http.get(events, headers=headers)
        assert refused.status_code == 429
        error = refused.json()["error"]
        assert "has 2 event streams and watches open" in error["message"]
        assert "keep.max_event_streams" in error["message"]
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await anext(aiter(watch()))
        told = from_rpc_error(caught.value, unavailable_as=Reason.INTERNAL)
        assert told.reason is Reason.CONCURRENCY_LIMIT_EXCEEDED
        with pytest.raises(openai.RateLimitError):
            await client.responses.retrieve(begun.id, stream=True)
        with pytest.raises(openai.RateLimitError):
            await client.responses.create(model=MODEL, input="hi", background=True, stream=True)
        await stream.close()

        # A place that is left is free.
        async def is_free() -> bool:
            call = watch()
            try:
                await anext(aiter(call))
            except grpc.aio.AioRpcError:
                return False
            call.cancel()
            return True

        await _until(is_free)
    site.worker.resume.set()
    site.worker.script = Script()
    await client.responses.delete(begun.id)
    await site.http.post(f"/v1/jobs/{job['id']}/cancel", headers=headers)


async def test_a_full_store_refuses_what_must_be_kept_and_says_what_it_does_not_keep(
    site: Gateway,
) -> None:
    client = site.openai()
    site.worker.script = Script()
    kept = [await client.responses.create(model=MODEL, input="hi") for _ in range(2)]
    told = await client.responses.create(model=MODEL, input="hi")
    assert told.output_text
    assert told.to_dict()["store"] is False
    assert "keep.max_responses" in str(told.to_dict()["store_error"])
    calls = site.worker.tokens
    for wish in ({"store": True}, {"background": True}):
        with pytest.raises(openai.RateLimitError) as refusal:
            await client.responses.create(model=MODEL, input="hi", extra_body=wish)
        assert refusal.value.code == "storage_exceeded"
        assert refusal.value.response.headers["x-should-retry"] == "false"
    assert site.worker.tokens == calls
    await client.responses.delete(kept[0].id)
    assert (await client.responses.create(model=MODEL, input="hi", store=True)).status


async def test_a_key_too_many_runs_nothing(site: Gateway) -> None:
    client = site.openai()
    messages: Any = [{"role": "user", "content": "hi"}]

    async def ask(key: str) -> Any:
        return await client.chat.completions.create(
            model=MODEL, messages=messages, extra_headers={"idempotency-key": key}
        )

    first = await ask("one")
    await ask("two")
    made = site.worker.tokens
    with pytest.raises(openai.RateLimitError) as refusal:
        await ask("three")
    assert refusal.value.code == "storage_exceeded"
    assert "keep.max_idempotency_keys" in str(refusal.value)
    assert (await ask("one")).id == first.id
    assert site.worker.tokens == made


async def _until(condition: Any) -> None:
    async with asyncio.timeout(15):
        while not await condition():
            await asyncio.sleep(0.02)
