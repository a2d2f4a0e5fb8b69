"""Sessions through both doors of two gateways that share a state database."""

import asyncio
from typing import Any

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration

from tests.gateway.harness import MODEL, Gateway, eventually
from weir.gateway.v1 import session_service_pb2 as wire
from weir.gateway.v1.inference_service_pb2 import GenerateRequest, GenerateResponse
from weir.gateway.v1.session_service_pb2_grpc import SessionServiceStub
from weir_core.errors import InvalidField, Reason, WeirError
from weir_core.errors.status import from_rpc_error
from weir_core.tasks import end_task
from weir_gateway.keys import NewKey

pytestmark = pytest.mark.asyncio(loop_scope="module")

Pair = tuple[Gateway, Gateway]


def sessions(gateway: Gateway) -> Any:
    return SessionServiceStub(gateway.channel)


def metadata(key: NewKey) -> tuple[tuple[str, str], ...]:
    return (("authorization", f"Bearer {key.secret}"),)


async def create(gateway: Gateway, **fields: Any) -> wire.Session:
    request = wire.CreateSessionRequest(model=MODEL, **fields)
    answer = await sessions(gateway).CreateSession(request, metadata=gateway.metadata)
    return answer.session  # type: ignore[no-any-return]


async def get(gateway: Gateway, session_id: str) -> wire.Session:
    request = wire.GetSessionRequest(session_id=session_id)
    answer = await sessions(gateway).GetSession(request, metadata=gateway.metadata)
    return answer.session  # type: ignore[no-any-return]


async def refusal(call: Any) -> WeirError:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return from_rpc_error(caught.value, unavailable_as=Reason.INTERNAL)


async def say(gateway: Gateway, key: NewKey | None = None, **fields: Any) -> list[GenerateResponse]:
    request = GenerateRequest(model=MODEL, prompt="hello there", max_new_tokens=3, **fields)
    told = metadata(key or gateway.key)
    stub: Any = gateway.stub
    return [event async for event in stub.Generate(request, metadata=told, timeout=20)]


async def test_a_turn_goes_with_its_session_to_scheduler_and_worker(pair: Pair) -> None:
    one, two = pair
    session = await create(one, idle_ttl=Duration(seconds=1200))
    assert (session.model, session.tokens) == (MODEL, 0)
    for gateway in (one, two):
        events = await say(gateway, session_id=session.session_id)
        assert events[0].accepted.session_id == session.session_id
        assert events[-1].finished.lifecycle.session_id == session.session_id
        assert gateway.scheduler.enqueued[0].session_id == session.session_id
        spec = gateway.worker.specs[0]
        assert (spec.private_scope, spec.kv.session_ttl_ms) == (session.session_id, 1_200_000)
    seen = await get(one, session.session_id)
    while seen.tokens != len("hello there") + 3:
        await asyncio.sleep(0.02)
        seen = await get(one, session.session_id)
    assert seen.last_use_time.ToMilliseconds() > session.last_use_time.ToMilliseconds()
    listed = await sessions(two).ListSessions(
        wire.ListSessionsRequest(page_size=1), metadata=two.metadata
    )
    assert [one.session_id for one in listed.sessions] == [session.session_id]


async def test_another_tenants_session_is_not_there(pair: Pair) -> None:
    one, two = pair
    mine = await create(one)
    stranger = metadata(one.other_key)
    service, session_id = sessions(one), mine.session_id
    for call in (
        service.GetSession(wire.GetSessionRequest(session_id=session_id), metadata=stranger),
        service.DeleteSession(wire.DeleteSessionRequest(session_id=session_id), metadata=stranger),
        say(one, one.other_key, session_id=session_id),
        say(two, two.other_key, session_id=session_id),
        say(one, session_id=f"{session_id[:-1]}{'A' if session_id[-1] != 'A' else 'B'}"),
    ):
        error = await refusal(call)
        assert error.reason is Reason.SESSION_NOT_FOUND
        assert error.field == "session_id"
        assert "POST /v1/sessions" in error.message
        assert session_id not in error.message
    listed = await service.ListSessions(wire.ListSessionsRequest(), metadata=stranger)
    assert not listed.sessions
    assert not one.worker.specs
    assert (await get(two, session_id)).session_id == session_id, "nothing happened to it"


async def test_a_deleted_session_is_refused_everywhere_within_a_second(pair: Pair) -> None:
    one, two = pair
    session = await create(one)
    named: Any = {"session_id": session.session_id}
    # Both gateways remember it by now.
    for gateway in (one, two, one, two):
        await say(gateway, **named)
    request = wire.DeleteSessionRequest(session_id=session.session_id)
    await sessions(one).DeleteSession(request, metadata=one.metadata)
    deleted_at = asyncio.get_running_loop().time()
    assert (await refusal(say(one, **named))).reason is Reason.SESSION_NOT_FOUND
    while True:
        began = asyncio.get_running_loop().time()
        try:
            await say(two, **named)
        except grpc.aio.AioRpcError as caught:
            error = from_rpc_error(caught, unavailable_as=Reason.INTERNAL)
            assert error.reason is Reason.SESSION_NOT_FOUND
            break
        assert began < deleted_at + 1.0
    again = sessions(one).DeleteSession(request, metadata=one.metadata)
    assert (await refusal(again)).reason is Reason.SESSION_NOT_FOUND
    key = ("acme", session.session_id)
    await eventually(lambda: key in one.worker.released and key in two.worker.released)


async def test_the_worker_of_a_turn_that_runs_is_told_of_a_deletion(pair: Pair) -> None:
    one, two = pair
    session = await create(one)
    two.worker.script.pause_after = 1
    turn = asyncio.create_task(say(two, session_id=session.session_id, stream=True))
    await eventually(lambda: two.worker.tokens)
    request = wire.DeleteSessionRequest(session_id=session.session_id)
    await sessions(one).DeleteSession(request, metadata=one.metadata)
    await eventually(lambda: ("acme", session.session_id) in two.worker.released)
    two.worker.resume.set()
    events = await turn
    assert events[-1].finished.usage.completion_tokens == 3, "the turn that ran goes on"


async def test_a_refused_request_renews_nothing(pair: Pair) -> None:
    one, _ = pair
    session = await create(one)
    edge = one.app.edge
    assert edge is not None
    await eventually(lambda: not edge._sessions.desk._writer._waiting)
    one.limiter.refuse = lambda _: WeirError(Reason.BUDGET_EXHAUSTED, "spent")
    error = await refusal(say(one, session_id=session.session_id))
    assert error.reason is Reason.BUDGET_EXHAUSTED
    assert not edge._sessions.desk._writer._waiting
    assert await get(one, session.session_id) == session


async def test_a_client_that_leaves_while_it_deletes_leaves_no_kv(pair: Pair) -> None:
    one, _ = pair
    edge = one.app.edge
    assert edge is not None
    release = edge._sessions.desk._release
    holders = {"w": one.worker.server.address}
    leaving = asyncio.create_task(release.release_soon("acme", "ses_left", holders))
    await asyncio.sleep(0)
    await end_task(leaving)
    await eventually(lambda: ("acme", "ses_left") in one.worker.released)


async def test_a_session_seen_lately_costs_no_read(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, _ = pair
    edge = one.app.edge
    assert edge is not None
    desk = edge._sessions.desk
    session = await create(one)
    reads = []
    find = desk._store.find

    async def counted(tenant_id: str, session_id: str) -> Any:
        reads.append(session_id)
        return await find(tenant_id, session_id)

    monkeypatch.setattr(desk._store, "find", counted)
    await say(one, session_id=session.session_id)
    await eventually(lambda: desk._watch.seen is not None)
    await say(one, session_id=session.session_id)
    before = len(reads)
    for _ in range(5):
        await say(one, session_id=session.session_id)
    assert 1 <= before <= 2
    assert len(reads) == before


async def test_a_conversation_is_one_session_on_every_gateway(pair: Pair) -> None:
    one, two = pair
    turns = [say(gateway, conversation_id="chat 7") for gateway in (one, two) * 4]
    ids = {events[0].accepted.session_id for events in await asyncio.gather(*turns)}
    assert len(ids) == 1
    (session_id,) = ids
    seen = await get(one, session_id)
    assert (seen.conversation_id, seen.model) == ("chat 7", MODEL)
    others = await say(one, one.other_key, conversation_id="chat 7")
    assert others[0].accepted.session_id not in ids, "a label is its tenant's own"
    made = await create(two, conversation_id="chat 7")
    assert made.session_id == session_id
    response = await one.chat(conversation_id="chat 7")
    assert response.headers["x-weir-session-id"] == session_id
    both = await say(one, session_id=session_id, conversation_id="chat 7")
    assert both[0].accepted.session_id == session_id
    error = await refusal(say(one, session_id=session_id, conversation_id="another"))
    assert (error.reason, error.field) == (Reason.INVALID_FIELD, "conversation_id")


async def test_several_answers_of_a_conversation_leave_its_kv_alone(pair: Pair) -> None:
    one, _ = pair
    await say(one, conversation_id="branches", sampling={"n": 2})
    spec, enqueue = one.worker.specs[0], one.scheduler.enqueued[0]
    assert (spec.private_scope, enqueue.session_id[:4]) == ("", "ses_")
    session = await create(one)
    error = await refusal(say(one, session_id=session.session_id, sampling={"n": 2}))
    assert isinstance(error, InvalidField)
    assert (error.field, error.bound) == ("sampling.n", "1 in a session")


@pytest.mark.parametrize("seconds", [599, 1801, -1])
async def test_idle_times_are_bounded(pair: Pair, seconds: int) -> None:
    error = await refusal(create(pair[0], idle_ttl=Duration(seconds=seconds)))
    assert (error.reason, error.field) == (Reason.INVALID_FIELD, "idle_ttl")
    assert "600 s to 1800 s" in error.message
    response = await pair[0].http.post("/v1/sessions", json={"model": MODEL, "idle_ttl_s": seconds})
    assert response.status_code == 400
    assert response.json()["error"]["param"] in ("idle_ttl", "idle_ttl_s")


async def test_over_http(pair: Pair) -> None:
    one, two = pair
    body = {"model": "small", "conversation_id": "web", "idle_ttl_s": 600}
    made = (await one.http.post("/v1/sessions", json=body)).json()
    assert (made["object"], made["model"], made["idle_ttl_s"]) == ("session", MODEL, 600)
    assert made["expires_at"] == made["last_used_at"] + 600
    path = f"/v1/sessions/{made['id']}"
    shown = await two.http.get(path)
    assert shown.json() == made
    assert shown.headers["x-request-id"].startswith("req_")
    page = (await two.http.get("/v1/sessions", params={"page_size": 1})).json()
    assert [entry["id"] for entry in page["data"]] == [made["id"]]
    rest = await two.http.get(
        "/v1/sessions", params={"page_size": 1, "page_token": page["next_page_token"]}
    )
    assert made["id"] not in [entry["id"] for entry in rest.json()["data"]]
    response = await one.chat(session_id=made["id"])
    assert response.headers["x-weir-session-id"] == made["id"]
    client = one.openai()
    answer = await client.chat.completions.create(
        model=MODEL,
        messages=[{"role": "user", "content": "hi"}],
        extra_body={"session_id": made["id"]},
    )
    assert answer.usage is not None
    message = {"model": MODEL, "max_tokens": 3, "messages": [{"role": "user", "content": "hi"}]}
    anthropic = await one.http.post("/v1/messages", json=message | {"session_id": made["id"]})
    assert anthropic.headers["x-weir-session-id"] == made["id"]
    gone = await two.http.delete(path)
    assert gone.json() == {"id": made["id"], "object": "session.deleted", "deleted": True}
    for response in (await two.http.get(path), await two.http.delete(path)):
        assert response.status_code == 404
        assert response.json()["error"]["code"] == "session_not_found"


@pytest.mark.parametrize(
    ("method", "path", "options", "param"),
    [
        ("POST", "/v1/sessions", {"json": {"model": MODEL, "ttl": 5}}, "ttl"),
        ("POST", "/v1/sessions", {"json": {}}, "model"),
        ("POST", "/v1/sessions", {"json": {"model": MODEL, "idle_ttl_s": "x"}}, "idle_ttl_s"),
        ("POST", "/v1/sessions", {"content": b"{"}, "body"),
        ("POST", "/v1/sessions", {"content": b" " * 70_000}, "body"),
        ("GET", "/v1/sessions?page_size=1001", {}, "page_size"),
        ("GET", "/v1/sessions?page_size=x", {}, "page_size"),
        ("GET", "/v1/sessions?page_token=x", {}, "page_token"),
        ("GET", "/v1/sessions?page_token=YQ==", {}, "page_token"),
        ("GET", "/v1/sessions?page_token=MSBhAGI=", {}, "page_token"),
        ("GET", "/v1/sessions?limit=5", {}, "limit"),
        (
            "POST",
            "/v1/sessions",
            {"json": {"model": MODEL, "conversation_id": "a\0"}},
            "conversation_id",
        ),
    ],
)
async def test_bad_requests_name_the_field(
    pair: Pair, method: str, path: str, options: dict[str, Any], param: str
) -> None:
    response = await pair[0].http.request(method, path, **options)
    assert response.status_code in (400, 413)
    assert response.json()["error"]["param"] == param


async def test_what_no_database_can_hold_is_nobodys_id(pair: Pair) -> None:
    response = await pair[0].http.get("/v1/sessions/ses_%00")
    assert (response.status_code, response.json()["error"]["code"]) == (404, "session_not_found")
    named = await pair[0].chat(session_id="ses_\0")
    assert named.json()["error"]["code"] == "session_not_found"
    labelled = await pair[0].chat(conversation_id="a\0b")
    assert labelled.json()["error"]["param"] == "conversation_id"


async def test_a_model_of_others_is_not_found(pair: Pair) -> None:
    response = await pair[0].http.post("/v1/sessions", json={"model": "org/secret"})
    assert response.json()["error"]["code"] == "model_not_found"


async def test_a_session_is_of_one_model(pair: Pair) -> None:
    one, _ = pair
    request = wire.CreateSessionRequest(model="org/secret")
    made = await sessions(one).CreateSession(request, metadata=metadata(one.other_key))
    error = await refusal(say(one, one.other_key, session_id=made.session.session_id))
    assert (error.reason, error.field) == (Reason.INVALID_FIELD, "session_id")
    assert "'org/secret'" in error.message


async def test_a_lost_worker_costs_a_session_nothing_but_time(pair: Pair) -> None:
    one, _ = pair
    session = await create(one)
    first = await say(one, session_id=session.session_id)
    one.workers[0].script.pause_after = 1
    turn = asyncio.create_task(say(one, session_id=session.session_id))
    await eventually(lambda: one.workers[0].tokens)
    one.workers[0].drop_streams()
    second = await turn
    text = ["".join(event.delta.text for event in events) for events in (first, second)]
    assert text[0] == text[1]
    assert one.workers[1].specs[0].private_scope == session.session_id
    request = wire.DeleteSessionRequest(session_id=session.session_id)
    await sessions(one).DeleteSession(request, metadata=one.metadata)
    key = ("acme", session.session_id)
    # A use that is being written at this moment is found to be of no session, and released then.
    await eventually(lambda: all(key in worker.released for worker in one.workers[:2]))
