"""Prefixes through both doors of a gateway."""

import asyncio
import json
from typing import Any

import grpc
import pytest

from tests.gateway.fake_worker import Script
from tests.gateway.harness import MODEL, Gateway, eventually
from weir.common.v1.subject_pb2 import RequestClass
from weir.gateway.v1 import prefix_service_pb2 as wire
from weir.gateway.v1.inference_service_pb2 import (
    ChatInput,
    ChatMessage,
    GenerateRequest,
    TokenizeRequest,
)
from weir.gateway.v1.prefix_service_pb2_grpc import PrefixServiceStub
from weir_core.errors import Reason
from weir_core.errors.status import from_rpc_error
from weir_gateway.prefixes.prefix import Prefix, PrefixContent

pytestmark = pytest.mark.asyncio(loop_scope="module")

ASK = {"model": MODEL, "messages": [{"role": "user", "content": "hi"}], "max_tokens": 2}


async def put(gateway: Gateway, name: str, **body: Any) -> dict[str, Any]:
    response = await gateway.http.put(f"/v1/prefixes/{name}", json=body)
    assert response.status_code == 200, response.text
    return response.json()  # type: ignore[no-any-return]


def text_of(gateway: Gateway) -> str:
    """The prompt that the worker got last, but for special tokens; its tokens are bytes."""
    spec = gateway.worker.specs[-1]
    return gateway.app.edge.texts.loaded(  # type: ignore[union-attr]
        gateway.document["models"][0]["versions"][0]["folder"]
    ).decode(list(spec.prompt_token_ids))


async def test_a_request_that_names_a_prefix_starts_with_it(gateway: Gateway) -> None:
    made = await put(gateway, "rules", text="Be brief. ", keep_cold=True)
    assert (made["object"], made["version"], made["models"]) == ("prefix", 1, [MODEL])
    await gateway.http.post("/v1/chat/completions", json=ASK | {"prefix": "rules"})
    assert text_of(gateway) == "system\nBe brief. \nuser\nhi\nassistant\n"
    spec = gateway.worker.specs[-1]
    assert spec.tenant_prefix_tokens >= len("system\nBe brief. \nuser\n")
    await put(gateway, "rules", text="Be long. ", keep_cold=True)
    for name, expected in (("rules", "Be long. x"), ("rules@1", "Be brief. x")):
        body = {"model": MODEL, "prompt": "x", "max_tokens": 2, "prefix": name}
        await gateway.http.post("/v1/completions", json=body)
        assert text_of(gateway) == expected
        assert gateway.worker.specs[-1].tenant_prefix_tokens == len(expected) - 1
    request = GenerateRequest(model=MODEL, prompt="y", max_new_tokens=1, prefix="rules@2")
    stub: Any = gateway.stub
    async for _ in stub.Generate(request, metadata=gateway.metadata):
        pass
    assert text_of(gateway) == "Be long. y"
    message = ASK | {"prefix": "rules", "max_tokens": 2}
    await gateway.http.post("/v1/messages", json=message)
    assert text_of(gateway) == "system\nBe long. \nuser\nhi\nassistant\n"
    told = await stub.Tokenize(
        TokenizeRequest(model=MODEL, prompt="y", prefix="rules"), metadata=gateway.metadata
    )
    tokens = await gateway.http.post(
        "/v1/tokenize", json={"model": MODEL, "prompt": "y", "prefix": "rules"}
    )
    assert len(told.token_ids) == tokens.json()["count"] == len("Be long. y")


async def test_a_prefix_is_its_tenants_own(gateway: Gateway) -> None:
    await put(gateway, "own", text="Secret. ", keep_cold=True)
    headers = {"authorization": f"Bearer {gateway.other_key.secret}"}
    path = "/v1/prefixes/own"
    for response in (
        await gateway.http.get(path, headers=headers),
        await gateway.http.delete(path, headers=headers),
        await gateway.http.post(f"{path}/warm", headers=headers),
        await gateway.http.post(
            "/v1/chat/completions", json=ASK | {"prefix": "own"}, headers=headers
        ),
    ):
        assert response.status_code == 404
        error = response.json()["error"]
        assert (error["code"], error["param"]) == ("not_found", "prefix")
    listed = await gateway.http.get("/v1/prefixes", headers=headers)
    assert listed.json()["data"] == []
    assert (await gateway.http.get(path)).json()["text"] == "Secret. "


async def test_it_is_computed_on_every_worker_and_charged(gateway: Gateway) -> None:
    await put(gateway, "warm", messages=[{"role": "system", "content": "You help."}])
    await eventually(lambda: all(worker.specs for worker in gateway.workers))
    await gateway.at_rest()
    for worker in gateway.workers:
        (spec,) = worker.specs
        assert spec.max_new_tokens == 1
        assert spec.tenant_prefix_tokens > len("system\nYou help.")
    for enqueued in gateway.scheduler.enqueued:
        assert getattr(enqueued, "class") == RequestClass.REQUEST_CLASS_BATCH
    accounts = gateway.limiter.accounts.values()
    assert [account.request.max_new_tokens for account in accounts] == [1, 1]
    assert {account.request.subject.tenant_id for account in accounts} == {"acme"}
    assert {account.request.subject.api_key_id for account in accounts} == {gateway.key.id}
    while True:
        shown = (await gateway.http.get("/v1/prefixes/warm")).json()
        if len(shown["warmths"]) == 2:
            break
    assert {warmth["worker_id"] for warmth in shown["warmths"]} == {"worker-0", "worker-1"}
    assert {warmth["model"] for warmth in shown["warmths"]} == {MODEL}
    assert all(warmth["prompt_tokens"] for warmth in shown["warmths"])


async def test_on_demand_it_says_where_or_why_not(gateway: Gateway) -> None:
    await put(gateway, "later", text="Rules. ", keep_cold=True)
    assert not gateway.worker.specs
    gateway.scheduler.states = {"worker-1": "draining"}
    answer = (await gateway.http.post("/v1/prefixes/later/warm")).json()
    assert [one["worker_id"] for one in answer["data"]] == ["worker-0"]
    assert answer["data"][0]["prompt_tokens"] == len("Rules. ")
    gateway.scheduler.states["worker-0"] = "lost"
    refused = await gateway.http.post("/v1/prefixes/later/warm")
    assert refused.status_code == 503
    assert refused.json()["error"]["code"] == "no_worker"
    gateway.scheduler.states = {}
    gateway.worker.script = Script(pieces=[], error=Reason.INVALID_FIELD, finish=5)  # type: ignore[arg-type]
    failed = await gateway.http.post("/v1/prefixes/later/warm?version=1")
    assert failed.status_code >= 400


async def test_on_a_worker_that_joins_it_is_computed_too(gateway: Gateway) -> None:
    edge = gateway.app.edge
    assert edge is not None
    keeper = edge._prefixes.keeper
    await keeper._look_once()
    gateway.scheduler.states = {"worker-1": "draining"}
    await keeper._look_once()
    await put(gateway, "joined", text="For all. ", keep_cold=True)
    await gateway.http.post("/v1/prefixes/joined/warm")
    assert not gateway.workers[1].specs
    gateway.scheduler.states = {}
    await keeper._look_once()
    prompts = [bytes(spec.prompt_token_ids) for spec in gateway.workers[1].specs]
    assert len(prompts) == len(set(prompts)) >= 1
    shown = (await gateway.http.get("/v1/prefixes/joined")).json()
    assert [one["worker_id"] for one in shown["warmths"]] == ["worker-0", "worker-1"]
    count = len(gateway.workers[1].specs)
    await keeper._look_once()
    assert len(gateway.workers[1].specs) == count


async def test_a_tenant_that_waits_holds_up_nobody_elses_prefix(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    edge = gateway.app.edge
    assert edge is not None
    keeper = edge._prefixes.keeper
    heads = [
        Prefix(
            tenant_id=tenant,
            name=f"{tenant}-{number}",
            version=1,
            content=PrefixContent(text="x"),
            models=(MODEL,),
            api_key_id="k",
            created_ms=1,
        )
        for tenant in ("slow", "quick")
        for number in range(3)
    ]
    free, begun = asyncio.Event(), []

    async def newest() -> list[Prefix]:
        return heads

    async def warm_on(head: Prefix, *_: object) -> None:
        begun.append(head.name)
        if head.tenant_id == "slow":
            await free.wait()

    monkeypatch.setattr(keeper._store, "newest_of_models", newest)
    monkeypatch.setattr(keeper, "_warm_on", warm_on)
    monkeypatch.setattr(keeper, "_known", set())
    looking = asyncio.create_task(keeper._look_once())
    await eventually(lambda: "quick-2" in begun)
    assert [name for name in begun if name.startswith("slow")] == ["slow-0"]
    free.set()
    await looking
    assert "slow-2" in begun


async def test_over_grpc(gateway: Gateway) -> None:
    stub: Any = PrefixServiceStub(gateway.channel)
    told = {"metadata": gateway.metadata}
    chat = ChatInput(
        messages=[ChatMessage(role="developer", content="d", name="n")],
        tools_json=['{"type": "function", "function": {"name": "f"}}'],
    )
    request = wire.PutPrefixRequest(name="wired", chat=chat, models=["small"], keep_cold=True)
    made = (await stub.PutPrefix(request, **told)).prefix
    assert (made.name, made.version, list(made.models)) == ("wired", 1, [MODEL])
    found = (await stub.GetPrefix(wire.GetPrefixRequest(name="wired"), **told)).prefix
    assert found == made
    assert found.chat == chat
    listed = await stub.ListPrefixes(wire.ListPrefixesRequest(page_size=1000), **told)
    assert ("wired", 1) in [(one.name, one.version) for one in listed.prefixes]
    page = await stub.ListPrefixes(wire.ListPrefixesRequest(page_size=1), **told)
    rest = await stub.ListPrefixes(
        wire.ListPrefixesRequest(page_token=page.next_page_token), **told
    )
    assert [*page.prefixes, *rest.prefixes] == list(listed.prefixes)
    warm = await stub.WarmPrefix(wire.WarmPrefixRequest(name="wired", version=1), **told)
    assert {one.worker_id for one in warm.warmths} == {"worker-0", "worker-1"}
    await stub.DeletePrefix(wire.DeletePrefixRequest(name="wired"), **told)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await stub.GetPrefix(wire.GetPrefixRequest(name="wired"), **told)
    error = from_rpc_error(caught.value, unavailable_as=Reason.INTERNAL)
    assert (error.reason, error.field) == (Reason.NOT_FOUND, "prefix")


@pytest.mark.parametrize(
    ("method", "path", "body", "param"),
    [
        ("PUT", "a b", {"text": "x"}, "name"),
        ("PUT", "a", {}, "messages"),
        ("PUT", "a", {"text": 5}, "text"),
        ("PUT", "a", {"text": ""}, "text"),
        ("PUT", "a", {"text": "x", "messages": []}, "messages"),
        ("PUT", "a", {"messages": [{"role": "user", "content": "x"}]}, "chat.messages[0].role"),
        ("PUT", "a", {"text": "x", "models": "m"}, "models"),
        ("PUT", "a", {"text": "x", "models": ["org/secret"]}, "model"),
        ("PUT", "a", {"text": "x", "models": ["m"] * 9}, "models"),
        ("PUT", "a", {"text": "x", "ttl": 1}, "ttl"),
        ("GET", "a?version=0", None, "version"),
        ("GET", "a?version=x", None, "version"),
        ("GET", "a?v=1", None, "v"),
        ("GET", "nobody", None, "prefix"),
        ("DELETE", "nobody", None, "prefix"),
    ],
)
async def test_bad_requests_name_the_field(
    gateway: Gateway, method: str, path: str, body: dict[str, Any] | None, param: str
) -> None:
    response = await gateway.http.request(method, f"/v1/prefixes/{path}", json=body)
    assert response.status_code in (400, 404)
    assert response.json()["error"]["param"] == param


async def test_a_number_that_no_answer_could_tell_again_is_refused(gateway: Gateway) -> None:
    function = {"name": "f", "parameters": {"x": 7}}
    messages = [{"role": "system", "content": "x"}]
    body = {"messages": messages, "tools": [{"type": "function", "function": function}]}
    content = json.dumps(body).replace("7", "1e999")
    response = await gateway.http.put("/v1/prefixes/infinite", content=content)
    error = response.json()["error"]
    assert (response.status_code, error["param"]) == (400, "tools[0].function.parameters")
    assert "JSON that can be written again" in error["message"]


@pytest.mark.parametrize("reference", ["a b", "a@0", "a@x", "nobody", "nobody@7"])
async def test_a_prefix_that_is_not_there(gateway: Gateway, reference: str) -> None:
    response = await gateway.http.post("/v1/chat/completions", json=ASK | {"prefix": reference})
    assert response.status_code in (400, 404)
    assert response.json()["error"]["param"] == "prefix"


async def test_a_policy_can_leave_declared_prefixes_as_they_are(gateway: Gateway) -> None:
    body = {"model": MODEL, "prompt": "a \r\nb \nc", "max_tokens": 1}
    declared = body | {"shared_prefix_characters": 5}
    for send, expected in ((body, "a \r\nb \nc"), (declared, "a\nb \nc")):
        await gateway.http.post("/v1/completions", json=send)
        assert text_of(gateway) == expected
    document = dict(gateway.document)
    tenant = document["tenants"][0]
    policy = tenant["policy"] | {"kv": {"normalise_prefix": False}}
    document["tenants"] = [tenant | {"policy": policy}, *document["tenants"][1:]]
    await gateway.reload(document)
    await gateway.http.post("/v1/completions", json=declared)
    assert text_of(gateway) == "a \r\nb \nc"
    await gateway.reload(gateway.document)
