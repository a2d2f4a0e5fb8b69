"""A stranger with nothing but the generated stubs; health and reflection of every service."""

import subprocess
import sys

import grpc
import pytest
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2

from tests.e2e.deployment import Deployment

pytestmark = [pytest.mark.model, pytest.mark.asyncio(loop_scope="session")]

_SCRIPT = """
import sys
import grpc
from weir.gateway.v1 import inference_service_pb2 as wire
from weir.gateway.v1.inference_service_pb2_grpc import InferenceServiceStub

address, key, model = sys.argv[1:]
request = wire.GenerateRequest(
    model=model,
    chat=wire.ChatInput(
        messages=[wire.ChatMessage(role="user", content="What is the capital of France?")]
    ),
    max_new_tokens=24,
    stream=True,
)
request.sampling.temperature = 0.0
with grpc.insecure_channel(address) as channel:
    call = InferenceServiceStub(channel).Generate(
        request, metadata=[("authorization", f"Bearer {key}")], timeout=60
    )
    for response in call:
        event = response.WhichOneof("event")
        if event == "delta":
            print(response.delta.text, end="")
        elif event == "finished":
            usage = response.finished.usage
            print(f"|{usage.prompt_tokens}+{usage.completion_tokens}={usage.total_tokens}")
loaded = [name for name in sys.modules if name.startswith(("weir_", "torch", "openai"))]
assert not loaded, loaded
"""


async def test_a_script_on_the_stubs_alone_gets_an_answer(smollm2: Deployment) -> None:
    arguments = [smollm2.grpc_address, smollm2.secret("acme"), smollm2.model]
    done = subprocess.run(  # noqa: ASYNC221
        [sys.executable, "-c", _SCRIPT, *arguments],
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    text, _, usage = done.stdout.strip().rpartition("|")
    assert "Paris" in text
    parts, total = usage.split("=")
    assert sum(int(part) for part in parts.split("+")) == int(total)


@pytest.mark.parametrize(
    ("process", "service"),
    [
        ("gateway", "weir.gateway.v1.InferenceService"),
        ("gateway", "weir.directory.v1.DirectoryService"),
        ("ratelimiter", "weir.ratelimiter.v1.RateLimiterService"),
        ("scheduler", "weir.scheduler.v1.SchedulerService"),
        ("worker-1", "weir.worker.v1.WorkerService"),
    ],
)
async def test_health_and_reflection_answer(
    smollm2: Deployment, process: str, service: str
) -> None:
    async with grpc.aio.insecure_channel(smollm2.address(process)) as channel:
        check = channel.unary_unary(
            "/grpc.health.v1.Health/Check",
            request_serializer=health_pb2.HealthCheckRequest.SerializeToString,
            response_deserializer=health_pb2.HealthCheckResponse.FromString,
        )
        for name in ("", service):
            health = await check(health_pb2.HealthCheckRequest(service=name), timeout=10)
            assert health.status == health_pb2.HealthCheckResponse.SERVING
        reflect = channel.stream_stream(
            "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
            request_serializer=reflection_pb2.ServerReflectionRequest.SerializeToString,
            response_deserializer=reflection_pb2.ServerReflectionResponse.FromString,
        )
        ask = reflection_pb2.ServerReflectionRequest(list_services="")
        listed = [
            entry.name
            async for response in reflect(iter([ask]), timeout=10)
            for entry in response.list_services_response.service
        ]
    assert service in listed
