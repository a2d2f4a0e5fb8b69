"""The gateway as processes and roles: directory, health, reflection, traces, logs, reload."""

import asyncio
import io
import json
import logging
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
import structlog
import yaml
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tests.gateway.fake_server import TOKEN
from tests.gateway.fake_worker import Script
from tests.gateway.harness import MODEL, Gateway, eventually, running_gateway
from weir.directory.v1.directory_service_pb2 import WatchRequest
from weir.directory.v1.directory_service_pb2_grpc import DirectoryServiceStub
from weir.gateway.v1 import admin_service_pb2, job_service_pb2
from weir.gateway.v1 import inference_service_pb2 as pb
from weir.gateway.v1.admin_service_pb2_grpc import AdminServiceStub
from weir.gateway.v1.inference_service_pb2_grpc import InferenceServiceStub
from weir.gateway.v1.job_service_pb2_grpc import JobServiceStub
from weir_core.directory.watcher import DirectoryWatcher
from weir_core.errors import Reason
from weir_core.errors.startup import StartupError
from weir_core.errors.status import from_rpc_error
from weir_core.rpc.channel import open_channel
from weir_core.telemetry.logs import setup_logs
from weir_core.telemetry.metrics import create_registry
from weir_core.telemetry.telemetry import Telemetry
from weir_core.telemetry.tracing import Tracing
from weir_gateway.app import GatewayApp
from weir_gateway.settings import GatewaySettings

SECRET_TEXT = "my grandmother's maiden name"


async def test_the_directory_is_served_to_who_knows_the_secret(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as gateway:
        stub: Any = DirectoryServiceStub(gateway.channel)
        for metadata in ((), gateway.metadata):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await stub.Watch(WatchRequest(), metadata=metadata).read()
            assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
        channel = open_channel(gateway.app.grpc_address, name="directory", token=TOKEN)
        watcher = DirectoryWatcher(channel, "test")
        versions: list[int] = []
        watcher.on_change(lambda index: versions.append(index.version))
        watcher.start()
        index = await watcher.wait_ready(10)
        assert index.tenant("acme") is not None
        tenant = gateway.document["tenants"][0] | {"suspended": True}
        await gateway.reload(
            gateway.document | {"tenants": [tenant, gateway.document["tenants"][1]]}
        )
        await eventually(lambda: len(versions) == 2)
        changed = watcher.required.tenant("acme")
        assert changed is not None
        assert changed.suspended
        gateway.directory.write_text("tenants: [")
        gateway.app.reload()
        assert (await gateway.http.get("/v1/models")).status_code == 403
        assert len(versions) == 2
        await watcher.stop()
        await channel.close()


def edge_app(**settings: Any) -> GatewayApp:
    options: dict[str, Any] = {
        "role": "edge",
        "http_address": "127.0.0.1:0",
        "grpc_address": "127.0.0.1:0",
        "cluster_token": TOKEN,
    }
    telemetry = Telemetry(tracing=Tracing("edge"), registry=create_registry())
    return GatewayApp(GatewaySettings(**(options | settings)), telemetry)


async def test_an_edge_follows_a_control_and_outlives_it(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as gateway:
        settings = gateway.app.settings
        edge = edge_app(
            directory_address=gateway.app.grpc_address,
            ratelimiter_address=settings.ratelimiter_address,
            scheduler_address=settings.scheduler_address,
        )
        await edge.start()
        try:
            async with grpc.aio.insecure_channel(edge.grpc_address) as channel:
                assert edge.edge is not None
                await eventually(lambda: edge.edge is not None and not edge.edge.not_ready())
                await gateway.app.stop()
                request = pb.GenerateRequest(model=MODEL, prompt="x", max_new_tokens=2)
                call: Any = InferenceServiceStub(channel).Generate(
                    request, metadata=gateway.metadata, timeout=20
                )
                messages = [message async for message in call]
                assert messages[-1].finished.usage.completion_tokens == 2
        finally:
            await edge.stop()


async def test_an_edge_without_a_directory_says_so(tmp_path: Path) -> None:
    edge = edge_app(directory_address="127.0.0.1:1")
    await edge.start()
    try:
        async with grpc.aio.insecure_channel(edge.grpc_address) as channel:
            stub: Any = InferenceServiceStub(channel)
            metadata = (("authorization", "Bearer x"),)
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await stub.ListModels(pb.ListModelsRequest(), metadata=metadata)
            error = from_rpc_error(caught.value, unavailable_as=Reason.INTERNAL)
            assert error.reason is Reason.DIRECTORY_UNAVAILABLE
    finally:
        await edge.stop()


async def test_health_reflection_and_what_is_off(tmp_path: Path) -> None:
    async with running_gateway(tmp_path) as gateway:
        health: Any = health_pb2_grpc.HealthStub(gateway.channel)
        for service in (
            "",
            "weir.gateway.v1.InferenceService",
            "weir.directory.v1.DirectoryService",
        ):
            answer = await health.Check(health_pb2.HealthCheckRequest(service=service))
            assert answer.status == health_pb2.HealthCheckResponse.SERVING
        names = await _reflected(gateway)
        assert {"weir.gateway.v1.InferenceService", "weir.gateway.v1.AdminService"} <= names
        channel: Any = gateway.channel
        for stub, method, request, reason in (
            (
                JobServiceStub(channel),
                "GetJob",
                job_service_pb2.GetJobRequest(job_id="job_1"),
                Reason.STATE_OFF,
            ),
            (
                AdminServiceStub(channel),
                "CreateKey",
                admin_service_pb2.CreateKeyRequest(),
                Reason.ADMINISTRATION_OFF,
            ),
        ):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await getattr(stub, method)(request, metadata=gateway.metadata)
            error = from_rpc_error(caught.value, unavailable_as=Reason.INTERNAL)
            assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
            assert error.reason is reason
        await gateway.app.drain()
        answer = await health.Check(health_pb2.HealthCheckRequest())
        assert answer.status == health_pb2.HealthCheckResponse.NOT_SERVING


async def _reflected(gateway: Gateway) -> set[str]:
    channel: Any = gateway.channel
    stub: Any = reflection_pb2_grpc.ServerReflectionStub(channel)
    call = stub.ServerReflectionInfo(
        iter([reflection_pb2.ServerReflectionRequest(list_services="")])
    )
    async for response in call:
        return {service.name for service in response.list_services_response.service}
    return set()


async def test_one_trace_holds_the_request_and_what_it_asked(tmp_path: Path) -> None:
    exporter = InMemorySpanExporter()
    tracing = Tracing("gateway", processor=SimpleSpanProcessor(exporter))
    telemetry = Telemetry(tracing=tracing, registry=create_registry())
    async with running_gateway(tmp_path, telemetry=telemetry) as gateway:
        parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        body = {
            "model": MODEL,
            "messages": [{"role": "user", "content": SECRET_TEXT}],
            "max_tokens": 3,
        }
        response = await gateway.http.post(
            "/v1/chat/completions", json=body, headers={"traceparent": parent}
        )
        assert response.status_code == 200
        await gateway.at_rest()
        await eventually(lambda: len(exporter.get_finished_spans()) == 5)
        spans = {span.name: span for span in exporter.get_finished_spans()}
        root = spans["chat tiny"]
        assert f"{root.context.trace_id:032x}" == "0af7651916cd43dd8448eb211c80319c"
        assert root.parent is not None
        assert f"{root.parent.span_id:016x}" == "b7ad6b7169203331"
        for name in ("intake", "reserve", "attempt", "settle"):
            child = spans[name].parent
            assert child is not None
            assert child.span_id == root.context.span_id
        attributes = dict(root.attributes or {})
        assert attributes["gen_ai.operation.name"] == "chat"
        assert attributes["gen_ai.request.max_tokens"] == 3
        assert attributes["gen_ai.usage.output_tokens"] == 3
        assert attributes["gen_ai.response.finish_reasons"] == ("length",)
        assert attributes["weir.tenant.id"] == "acme"
        assert SECRET_TEXT not in json.dumps([span.to_json() for span in spans.values()])
        started = gateway.worker.specs[0].trace.traceparent
        attempt = spans["attempt"].context
        assert started == f"00-{root.context.trace_id:032x}-{attempt.span_id:016x}-01"
        told = f"00-{root.context.trace_id:032x}-{root.context.span_id:016x}-01"
        assert response.headers["traceresponse"] == told
    tracing.shutdown()


@pytest.fixture
def logged() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    stream = io.StringIO()
    setup_logs("weir-gateway", stream=stream)
    yield stream
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


async def test_logs_hold_one_line_a_request_and_no_text_of_it(
    tmp_path: Path, logged: io.StringIO
) -> None:
    async with running_gateway(tmp_path) as gateway:
        gateway.worker.script = Script(pieces=["the secret answer"])
        body = {"model": MODEL, "messages": [{"role": "user", "content": SECRET_TEXT}]}
        for headers in ({}, {"authorization": f"Bearer {gateway.key.secret}x"}):
            await gateway.http.post("/v1/chat/completions", json=body, headers=headers)
        bad = body | {"stop": [SECRET_TEXT * 30], "temperature": SECRET_TEXT}
        refused = await gateway.http.post("/v1/chat/completions?key=sk-abc", json=bad)
        assert refused.status_code == 400
        await gateway.at_rest()
        secret = gateway.key.secret
    lines = [json.loads(line) for line in logged.getvalue().splitlines()]
    # The test's own client writes URLs into the same stream.
    text = json.dumps([line for line in lines if not line["logger"].startswith("httpx")])
    (finished,) = [line for line in lines if line["event"] == "request finished"]
    for field, value in {
        "tenant_id": "acme",
        "user_id": "alice",
        "model": MODEL,
        "outcome": "OK",
        "completion_tokens": 1,
        "worker_id": "worker-0",
        "attempts": 1,
    }.items():
        assert finished[field] == value
    assert finished["request_id"].startswith("req_")
    assert len(finished["trace_id"]) == 32
    assert finished["total_ms"] >= finished["first_token_ms"] >= 0
    for hidden in (SECRET_TEXT, "secret answer", secret, "sk-abc"):
        assert hidden not in text


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"directory_file": ""}, "directory_file is empty"),
        ({"directory_file": "/nowhere/directory.yaml"}, "No such file"),
        ({"cluster_token": None}, "WEIR_CLUSTER_TOKEN"),
        ({"grpc_address": "nowhere"}, "grpc_address is 'nowhere'"),
        ({"http_address": "nowhere"}, "http_address is 'nowhere'"),
    ],
)
async def test_what_keeps_it_from_starting_is_one_line(
    tmp_path: Path, change: dict[str, Any], told: str
) -> None:
    (tmp_path / "d.yaml").write_text("tenants: []")
    options: dict[str, Any] = {
        "http_address": "127.0.0.1:0",
        "grpc_address": "127.0.0.1:0",
        "directory_file": str(tmp_path / "d.yaml"),
        "cluster_token": TOKEN,
    }
    telemetry = Telemetry(tracing=Tracing("gateway"), registry=create_registry())

    async def start() -> None:
        app = GatewayApp(GatewaySettings(**(options | change)), telemetry)
        try:
            await app.start()
        finally:
            await app.stop()

    with pytest.raises(StartupError) as caught:
        await start()
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


@asynccontextmanager
async def process(tmp_path: Path, directory: str) -> AsyncIterator[asyncio.subprocess.Process]:
    path = tmp_path / "directory.yaml"
    path.write_text(directory)
    started = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "weir_gateway"),
        *("--http-address", "127.0.0.1:0", "--grpc-address", "127.0.0.1:0"),
        *("--directory-file", str(path), "--directory-poll-s", "3600"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={"WEIR_CLUSTER_TOKEN": TOKEN.get_secret_value()},
    )
    try:
        yield started
    finally:
        if started.returncode is None:
            started.kill()
        await started.wait()


async def test_the_process_announces_itself_reloads_and_drains(tmp_path: Path) -> None:
    async with process(tmp_path, "tenants: []") as started:
        assert started.stdout is not None
        assert started.stderr is not None
        ready = json.loads(await asyncio.wait_for(started.stdout.readline(), 30))
        assert (ready["event"], ready["service"]) == ("ready", "gateway")
        assert ready["http"].startswith("127.0.0.1:")
        channel = open_channel(ready["grpc"], name="directory", token=TOKEN)
        stub: Any = DirectoryServiceStub(channel)
        call = stub.Watch(WatchRequest(watcher="test"))
        assert (await call.read()).snapshot.plans
        changed = {"tenants": [{"id": "new", "plan": "free", "users": [{"id": "u"}]}]}
        (tmp_path / "directory.yaml").write_text(yaml.safe_dump(changed))
        started.send_signal(signal.SIGHUP)
        delta = (await asyncio.wait_for(call.read(), 10)).delta
        assert [tenant.id for tenant in delta.changed.tenants] == ["new"]
        call.cancel()
        await channel.close()
        started.terminate()
        assert await asyncio.wait_for(started.wait(), 20) == 0


async def test_a_process_that_cannot_start_says_why_in_one_line(tmp_path: Path) -> None:
    async with process(tmp_path, "tenants: [{id: t, plan: nope, users: [{id: u}]}]") as started:
        out, err = await asyncio.wait_for(started.communicate(), 30)
        assert started.returncode == 1
        failed = json.loads(out.splitlines()[-1])
        assert failed["event"] == "failed"
        assert "there is no plan 'nope'" in failed["error"]
        assert "there is no plan 'nope'" in err.decode().splitlines()[-1]
