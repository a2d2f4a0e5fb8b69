"""Marked texts in every field of every door, on success and in every kind of failure: nothing of
them is in logs, spans, metrics, the bill, the queue, or what another tenant or administrator sees.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc
import pytest
import pytest_asyncio

from tests.authorisation.calls import call_http, call_rpc, rpc_request
from tests.authorisation.site import ADMIN_SECRET
from tests.authorisation.surface import every_rpc
from tests.authorisation.table import ROUTES, RPCS, Door
from tests.gateway.fake_worker import Script
from tests.gateway.harness import MODEL, Gateway, eventually, running_gateway
from tests.safety.sinks import MARK, Sinks, files_of, marked, open_sinks, rows_with
from weir.common.v1.sampling_pb2 import FinishReason, SamplingParams
from weir.gateway.v1 import inference_service_pb2 as pb
from weir_core.errors import LimitExceeded, Reason

pytestmark = pytest.mark.asyncio(loop_scope="module")

KEY_IN_QUERY = f"sk-{MARK}0123456789abcdefghij"
TOOL = {
    "type": "function",
    "function": {
        "name": f"{MARK}tool",
        "description": marked("description"),
        "parameters": {"type": "object", "properties": {marked("property"): {"type": "string"}}},
    },
}
CHAT: dict[str, Any] = {
    "model": MODEL,
    "max_tokens": 3,
    "messages": [
        {"role": "system", "content": marked("system")},
        {"role": "user", "content": marked("user"), "name": f"{MARK}name"},
    ],
    "stop": [marked("stop")],
    "user": marked("user label"),
    "metadata": {"note": marked("metadata")},
    "conversation_id": marked("conversation"),
}
PROMPT = {"model": MODEL, "prompt": marked("prompt"), "max_tokens": 3}
MESSAGES = {
    "model": MODEL,
    "max_tokens": 3,
    "system": marked("system"),
    "messages": [{"role": "user", "content": marked("user")}],
    "stop_sequences": [marked("stop")],
}
RESPONSE = {
    "model": MODEL,
    "input": marked("input"),
    "instructions": marked("instructions"),
    "metadata": {"note": marked("metadata")},
}


class Place:
    """The gateway, its sinks and its databases."""

    def __init__(self, gateway: Gateway, sinks: Sinks, folder: Path) -> None:
        self.gateway = gateway
        self.sinks = sinks
        self.folder = folder

    async def post(self, path: str, body: Any, **options: Any) -> Any:
        return await self.gateway.http.post(path, json=body, **options)

    async def grpc(self, **fields: Any) -> None:
        request = pb.GenerateRequest(model=MODEL, max_new_tokens=3, stream=True, **fields)
        call: Any = self.gateway.stub.Generate(request, metadata=self.gateway.metadata, timeout=20)
        with suppress(grpc.aio.AioRpcError):
            [message async for message in call]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def place(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Place]:
    folder = tmp_path_factory.mktemp("safety")
    settings: dict[str, Any] = {
        "database_url": f"sqlite:///{folder}/directory.sqlite",
        "state_url": f"sqlite:///{folder}/state.sqlite",
        "admin_secret": ADMIN_SECRET,
    }
    with open_sinks() as sinks:
        async with running_gateway(
            folder, workers=2, telemetry=sinks.telemetry, **settings
        ) as gateway:
            for worker in gateway.workers:
                worker.script = Script(pieces=[marked("output"), " ", "end"])
            place = Place(gateway, sinks, folder)
            for act in ACTS:
                await act(place)
                gateway.scheduler.reject = lambda _: None
                gateway.limiter.refuse = lambda _: None
                for worker in gateway.workers:
                    worker.script = Script(pieces=[marked("output"), " ", "end"])
            await gateway.at_rest()
            yield place


async def succeed(place: Place) -> None:
    calls: list[tuple[str, Any]] = [
        ("/v1/chat/completions", CHAT),
        ("/v1/chat/completions", CHAT | {"stream": True}),
        ("/v1/completions", PROMPT),
        ("/v1/completions", PROMPT | {"json_schema": {"type": "string", "const": MARK}}),
        ("/v1/messages", MESSAGES),
        ("/v1/responses", RESPONSE),
        ("/v1/tokenize", {"model": MODEL, "prompt": marked("tokenize")}),
        ("/v1/jobs", {"body": CHAT}),
        ("/v1/sessions", {"model": MODEL, "conversation_id": marked("session")}),
    ]
    for number, (path, body) in enumerate(calls):
        answer = await place.post(path, body, headers={"idempotency-key": f"{MARK}-{number}"})
        assert answer.status_code < 300, (path, answer.text)
    line = {"custom_id": MARK, "method": "POST", "url": "/v1/chat/completions", "body": CHAT}
    files = {"file": (f"{MARK}.jsonl", json.dumps(line).encode())}
    kept = await place.gateway.http.post("/v1/files", files=files, data={"purpose": "batch"})
    assert kept.status_code == 200
    batch = {"endpoint": "/v1/chat/completions", "completion_window": "24h"}
    begun = await place.post("/v1/batches", batch | {"input_file_id": kept.json()["id"]})
    assert begun.status_code == 200
    put = {"text": marked("prefix"), "keep_cold": True}
    assert (await place.gateway.http.put(f"/v1/prefixes/{MARK}", json=put)).status_code == 200
    await place.grpc(prompt=marked("grpc"), sampling=SamplingParams(stop=[marked("stop")]))
    message = pb.ChatMessage(role="user", content=marked("grpc chat"))
    await place.grpc(chat=pb.ChatInput(messages=[message], tools_json=[json.dumps(TOOL)]))

    async def jobs_ended() -> bool:
        jobs = (await place.gateway.http.get("/v1/jobs")).json()["data"]
        return all(job["ended_at"] for job in jobs)

    async with asyncio.timeout(30):
        while not await jobs_ended():
            await asyncio.sleep(0.02)


async def send_nonsense(place: Place) -> None:
    http = place.gateway.http
    for field, value in (
        ("temperature", marked("temperature")),
        ("messages", [{"role": marked("role"), "content": "x"}]),
        ("messages", [{"role": "tool", "content": marked("tool output")}]),
        ("messages", [{"role": "user", "content": [{"type": marked("part")}]}]),
        ("tools", [{"type": marked("tool type")}]),
        ("tools", [TOOL]),
        ("response_format", {"type": marked("format")}),
        ("json_schema", "{" + marked("schema")),
        ("regex", "(" + marked("regex")),
        ("model", marked("model")),
        ("session_id", marked("session")),
        ("service_tier", marked("tier")),
        ("metadata", {marked("key") * 40: "x"}),
        (marked("unknown"), 1),
        ("max_tokens", 10**6),
    ):
        answer = await place.post("/v1/chat/completions", CHAT | {field: value})
        assert answer.status_code < 500, (field, answer.text)
        assert len(answer.content) < 3_000, field
    long = marked("long") * 200
    await place.post("/v1/completions", PROMPT | {"prompt": long})
    for raw in (b"{" + MARK.encode(), b'{"a": ' + MARK.encode() * 9_000, b"\xff" + MARK.encode()):
        for path in ("/v1/chat/completions", "/v1/messages", "/v1/responses", "/v1/jobs"):
            assert (await http.post(path, content=raw)).status_code == 400
    await http.get(f"/v1/models/{MARK}")
    await http.get(f"/v1/{MARK}?key={KEY_IN_QUERY}")
    await http.get(f"/v1/models?api_key={KEY_IN_QUERY}")
    for header in (f"Bearer {MARK}", f"Basic {MARK}", f"Bearer wr_dev_{MARK}", MARK):
        answer = await http.get("/v1/models", headers={"authorization": header})
        assert answer.status_code == 401
        assert MARK not in answer.text
    await http.get("/v1/models", headers={"x-request-id": MARK, "traceparent": f"00-{MARK}"})
    await place.grpc(prompt=marked("grpc"), json_schema="{" + marked("schema"))
    await place.grpc(prompt=marked("grpc"), session_id=marked("session"))


async def fail_at_the_worker(place: Place) -> None:
    for reason in (Reason.ENGINE_FAILED, Reason.INTERNAL, Reason.WORKER_LOST):
        for worker in place.gateway.workers:
            worker.script = Script(
                pieces=[marked("output")], finish=FinishReason.FINISH_REASON_ERROR, error=reason
            )
        await place.post("/v1/chat/completions", CHAT)
        await place.post("/v1/chat/completions", CHAT | {"stream": True})
        await place.post("/v1/messages", MESSAGES)
        await place.post("/v1/responses", RESPONSE)
        await place.grpc(prompt=marked("grpc"))


async def be_refused(place: Place) -> None:
    place.gateway.limiter.refuse = lambda _: LimitExceeded(
        Reason.TOKEN_LIMIT_EXCEEDED, "no tokens", [], retry_after_s=1.0
    )
    for path, body in (("/v1/chat/completions", CHAT), ("/v1/responses", RESPONSE)):
        assert (await place.post(path, body)).status_code == 429


async def break_the_gateway(place: Place) -> None:
    """A fault of ours whose exception quotes what it was given, as faults of libraries do."""
    edge = place.gateway.app.edge
    assert edge is not None
    preparer, desk = edge._preparer, edge.desk

    async def quote(*arguments: Any, **_: Any) -> Any:
        raise ValueError(f"cannot handle {arguments} {marked('quoted')}")

    for owner, name in ((preparer, "prepare"), (desk, "admit")):
        kept = getattr(owner, name)
        setattr(owner, name, quote)
        try:
            for path, body in (
                ("/v1/chat/completions", CHAT),
                ("/v1/messages", MESSAGES),
                ("/v1/responses", RESPONSE),
            ):
                answer = await place.post(path, body)
                assert answer.status_code == 500
                assert MARK not in answer.text
            await place.grpc(prompt=marked("grpc"))
        finally:
            setattr(owner, name, kept)


async def leave(place: Place) -> None:
    for worker in place.gateway.workers:
        worker.script = Script(pieces=[marked("output")] * 3, pause_after=1)
    http = place.gateway.http
    async with http.stream("POST", "/v1/chat/completions", json=CHAT | {"stream": True}) as answer:
        async for _ in answer.aiter_bytes():
            break
    await eventually(lambda: not place.gateway.limiter.open_accounts)


ACTS: list[Callable[[Place], Awaitable[None]]] = [
    succeed,
    send_nonsense,
    fail_at_the_worker,
    be_refused,
    break_the_gateway,
    leave,
]


async def test_nothing_is_in_logs_spans_metrics_bill_or_queue(place: Place) -> None:
    seen = await place.sinks.texts(place.gateway)
    assert all(seen.values())
    events = {line["event"] for line in place.sinks.lines()}
    assert {"request finished", "http_request_failed", "rpc_failed", "request refused"} <= events
    for name, text in seen.items():
        at = text.find(MARK)
        assert at < 0, f"{name}: ...{text[max(0, at - 300) : at + 80]}..."
    assert KEY_IN_QUERY not in "".join(seen.values())


async def test_what_is_kept_is_in_rows_of_its_tenant_alone(place: Place) -> None:
    found: dict[str, list[dict[str, Any]]] = {}
    for database in ("state.sqlite", "directory.sqlite"):
        for table, row in rows_with(place.folder / database, MARK):
            found.setdefault(table, []).append(row)
    assert {"jobs", "responses", "files", "sessions"} <= found.keys()
    files = files_of(place.folder / "state.sqlite", "acme")
    for table, rows in found.items():
        for row in rows:
            if table == "file_chunks":
                assert row["file_id"] in files
            else:
                assert row.get("tenant_id") == "acme", (table, list(row))


async def test_another_tenant_and_administrators_are_told_nothing(place: Place) -> None:
    gateway = place.gateway
    other = f"Bearer {gateway.other_key.secret}"
    for name, row in ROUTES.items():
        if name.startswith("GET ") and "{" not in name:
            assert MARK not in (await call_http(gateway.http, name, row, other)).body, name
    for rpc in every_rpc():
        door = RPCS[rpc.name].door
        if "/List" in rpc.name and door in (Door.TENANT, Door.VIEWER, Door.ADMIN):
            header = f"Bearer {ADMIN_SECRET}" if door is Door.ADMIN else other
            told = await call_rpc(gateway.channel, rpc, rpc_request(rpc, RPCS[rpc.name]), header)
            assert told.code == "OK" or "Webhook" in rpc.name, rpc.name
            assert MARK not in told.body, rpc.name


async def test_it_is_the_tenants_own_to_read(place: Place) -> None:
    """The marks were really there: their owner sees them."""
    answer = await place.gateway.http.get("/v1/jobs")
    job = await place.gateway.http.get(f"/v1/jobs/{answer.json()['data'][0]['id']}")
    assert marked("output") in job.text
