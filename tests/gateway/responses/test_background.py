"""Responses in the background: jobs behind OpenAI's own calls."""

import asyncio
from pathlib import Path
from typing import Any

import openai
import pytest
from openai.types.responses import Response
from sqlalchemy import select

from tests.gateway.fake_worker import Script
from tests.gateway.harness import MODEL, Gateway, eventually, running_gateway
from weir.common.v1.sampling_pb2 import FinishReason
from weir_core.errors import Reason
from weir_gateway.keys import generate_key
from weir_gateway.responses.tables import events, responses

pytestmark = pytest.mark.asyncio(loop_scope="module")
STOP = FinishReason.FINISH_REASON_STOP


async def when(gateway: Gateway, response_id: str, status: str) -> Response:
    """The response once it is in a state."""
    async with asyncio.timeout(20):
        while True:
            response = await gateway.openai().responses.retrieve(response_id)
            if response.status == status:
                return response
            await asyncio.sleep(0.02)


async def test_it_is_queued_then_completed_and_charged_once(gateway: Gateway) -> None:
    gateway.worker.script = Script(pieces=["Hello"], finish=STOP)
    client = gateway.openai()
    begun = await client.responses.create(
        model=MODEL, input="hi", background=True, metadata={"a": "b"}
    )
    assert (begun.status, begun.background, begun.output) == ("queued", True, [])
    ended = await when(gateway, begun.id, "completed")
    assert (ended.output_text, ended.metadata, ended.id) == ("Hello", {"a": "b"}, begun.id)
    assert ended.usage is not None
    assert ended.usage.output_tokens == 1
    await gateway.at_rest()
    assert gateway.limiter.closings == [1]
    again = await client.responses.cancel(begun.id)
    assert again.status == "completed"
    followed = await client.responses.create(
        model=MODEL, input="and?", previous_response_id=begun.id
    )
    assert followed.previous_response_id == begun.id


async def test_events_can_be_read_again_from_any_of_them(gateway: Gateway) -> None:
    gateway.worker.script = Script(pieces=["a", "b", "c", "d"], pause_after=2, finish=STOP)
    client = gateway.openai()
    stream = await client.responses.create(model=MODEL, input="hi", background=True, stream=True)
    seen: list[Any] = []
    async for event in stream:
        seen.append(event)
        if len(seen) == 3:
            gateway.worker.resume.set()
    assert [event.sequence_number for event in seen] == list(range(len(seen)))
    kinds = [event.type for event in seen if "delta" not in event.type]
    assert kinds[:3] == ["response.created", "response.queued", "response.in_progress"]
    assert kinds[-1] == "response.completed"
    assert "".join(event.delta for event in seen if "delta" in event.type) == "abcd"
    response_id = seen[0].response.id
    for after in (0, 3, len(seen) - 2, len(seen) - 1, 1_000):
        again = await client.responses.retrieve(response_id, stream=True, starting_after=after)
        events: list[Any] = [event async for event in again]
        assert events == seen[after + 1 :]
    async with client.responses.stream(response_id=response_id) as gathered:
        final = await gathered.get_final_response()
    assert final.output_text == "abcd"


async def test_cancelling_ends_it_and_charges_what_ran(gateway: Gateway) -> None:
    gateway.worker.script = Script(pause_after=2)
    client = gateway.openai()
    begun = await client.responses.create(model=MODEL, input="hi", background=True)
    await eventually(lambda: gateway.worker.tokens == 2)
    await when(gateway, begun.id, "in_progress")
    ended = await client.responses.cancel(begun.id)
    assert ended.status == "cancelled"
    assert ended.usage is not None
    assert ended.usage.output_tokens == 2
    assert (await client.responses.cancel(begun.id)).status == "cancelled"
    events: list[Any] = [
        event async for event in await client.responses.retrieve(begun.id, stream=True)
    ]
    assert events[-1].type == "response.cancelled"
    with pytest.raises(openai.BadRequestError) as caught:
        await client.responses.create(model=MODEL, input="x", previous_response_id=begun.id)
    assert caught.value.code == "state_conflict"


async def test_one_that_fails_says_why(gateway: Gateway) -> None:
    gateway.worker.script = Script(
        pieces=[], finish=FinishReason.FINISH_REASON_ERROR, error=Reason.INVALID_FIELD
    )
    begun = await gateway.openai().responses.create(model=MODEL, input="hi", background=True)
    failed = await when(gateway, begun.id, "failed")
    assert failed.error is not None
    assert failed.error.message
    assert failed.output == []


async def test_one_that_is_deleted_runs_no_further(gateway: Gateway) -> None:
    gateway.worker.script = Script(pause_after=1)
    client = gateway.openai()
    begun = await client.responses.create(model=MODEL, input="hi", background=True)
    await eventually(lambda: gateway.worker.tokens == 1)
    assert gateway.app.edge is not None
    async with gateway.app.edge.state.reading() as connection:
        row = (await connection.execute(select(responses).filter_by(id=begun.id))).one()
    # It is kept from its end on, which may be a day away.
    assert abs(row.expires_ms - row.created_ms - 31 * 86_400_000) < 60_000
    await client.responses.delete(begun.id)
    with pytest.raises(openai.NotFoundError):
        await client.responses.retrieve(begun.id)
    await eventually(lambda: not gateway.worker.running)
    await gateway.at_rest()
    async with gateway.app.edge.state.reading() as connection:
        left = await connection.execute(select(events).filter_by(response_id=begun.id))
        assert left.all() == []


async def test_a_key_that_is_revoked_reads_no_further(gateway: Gateway) -> None:
    gateway.worker.script = Script(pause_after=1)
    begun = await gateway.openai().responses.create(
        model=MODEL, input="hi", background=True, stream=True
    )
    first: Any = await anext(aiter(begun))
    response_id = first.response.id
    acme, *others = gateway.document["tenants"]
    reader = generate_key("dev")
    second = {"id": reader.id, "user": "alice", "hash": reader.hash.hex()}
    for revoked in (False, True):
        keys = [*acme["keys"], second | {"revoked": revoked}]
        await gateway.reload(gateway.document | {"tenants": [acme | {"keys": keys}, *others]})
        if not revoked:
            client = gateway.openai(api_key=reader.secret)
            stream = aiter(await client.responses.retrieve(response_id, stream=True))
            assert (await anext(stream)).type == "response.created"
    async with asyncio.timeout(20):
        told = [event async for event in stream]
    assert (told[-1].type, told[-1].code) == ("error", "invalid_api_key")  # type: ignore[union-attr]
    gateway.worker.resume.set()
    await when(gateway, response_id, "incomplete")
    await gateway.reload(gateway.document)


async def test_a_tenant_may_enqueue_so_much(gateway: Gateway) -> None:
    policy = gateway.document["tenants"][0]["policy"] | {"batch": {"max_enqueued_tokens": 100}}
    tenants = [
        gateway.document["tenants"][0] | {"policy": policy},
        *gateway.document["tenants"][1:],
    ]
    await gateway.reload(gateway.document | {"tenants": tenants})
    body = {"model": MODEL, "input": "hi", "background": True, "max_output_tokens": 150}
    async with asyncio.timeout(20):
        while (await gateway.http.post("/v1/responses", json=body)).status_code != 429:
            await asyncio.sleep(0.05)
    refused = await gateway.http.post("/v1/responses", json=body)
    assert refused.json()["error"]["code"] == "enqueued_tokens_exceeded"
    await gateway.reload(gateway.document)
    async with asyncio.timeout(20):
        while (await gateway.http.post("/v1/responses", json=body)).status_code != 200:
            await asyncio.sleep(0.05)
    await eventually(lambda: not gateway.limiter.open_accounts)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"input": "x" * 3_000}, "context_length_exceeded"),
        ({"session_id": "s"}, "unsupported_value"),
        ({"model": "nothing"}, "model_not_found"),
    ],
)
async def test_what_can_never_run_is_refused_at_once(
    gateway: Gateway, fields: dict[str, Any], code: str
) -> None:
    body = {"model": MODEL, "input": "hi", "background": True} | fields
    answer = await gateway.http.post("/v1/responses", json=body)
    assert answer.status_code in (400, 404)
    assert answer.json()["error"]["code"] == code


async def test_without_a_database_nothing_is_kept_and_it_is_said(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as gateway:
        client = gateway.openai()
        response = await client.responses.create(model=MODEL, input="hi")
        assert response.model_extra is not None
        assert response.model_extra["store"] is False
        calls: list[Any] = [
            client.responses.create(model=MODEL, input="hi", store=True),
            client.responses.create(model=MODEL, input="hi", background=True),
            client.responses.retrieve(response.id),
        ]
        for call in calls:
            with pytest.raises(openai.APIStatusError) as caught:
                await call
            assert (caught.value.status_code, caught.value.code) == (501, "state_off")


async def test_another_gateway_makes_it_again_and_a_reader_sees_one_answer(tmp_path: Path) -> None:
    script = Script(pieces=["a", "b", "c", "d"], pause_after=2, finish=STOP)
    settings: dict[str, Any] = {"state_url": f"sqlite:///{tmp_path / 'state.sqlite'}"}
    async with running_gateway(tmp_path / "one", **settings) as one:

        def knows_its_key(document: dict[str, Any]) -> None:
            entry = {"id": one.key.id, "user": "alice", "hash": one.key.hash.hex()}
            document["tenants"][0]["keys"].append(entry)

        one.worker.script = script
        begun = await one.openai().responses.create(
            model=MODEL, input="hi", background=True, stream=True
        )
        first: Any = await anext(aiter(begun))
        response_id = first.response.id
        await eventually(lambda: one.worker.tokens == 2)
        async with running_gateway(tmp_path / "two", change=knows_its_key, **settings) as two:
            two.worker.script = Script(pieces=["ab", "cd"], finish=STOP)
            stream = await two.openai(api_key=one.key.secret).responses.retrieve(
                response_id, stream=True
            )
            reading = asyncio.create_task(_all(stream))
            await one.app.stop()
            events = await reading
            await two.at_rest()
    assert [event.sequence_number for event in events] == list(range(len(events)))
    kinds = [event.type for event in events if "delta" not in event.type]
    assert kinds.count("response.in_progress") == 1
    assert kinds[-1] == "response.completed"
    assert "".join(event.delta for event in events if "delta" in event.type) == "abcd"
    assert events[-1].response.output_text == "abcd"


async def _all(stream: Any) -> list[Any]:
    return [event async for event in stream]
