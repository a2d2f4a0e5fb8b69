"""A request goes to the worker that holds its system prompt."""

from pathlib import Path

import pytest

from tests.e2e.conftest import WIDE
from tests.e2e.deployment import Deployment, deployed
from tests.e2e.wait import until
from weir.common.v1.sampling_pb2 import SamplingParams
from weir.common.v1.usage_pb2 import Usage
from weir.gateway.v1.inference_service_pb2 import (
    ChatInput,
    ChatMessage,
    GenerateRequest,
    GenerateResponse,
)

pytestmark = pytest.mark.timeout(180)

# Some 150 tokens of the null model's bytes.
SYSTEM = "You are a helpful assistant who answers in one short sentence. " * 3
TENANTS = {"acme": {"plan": "wide"}, "globex": {"plan": "wide"}}


async def test_the_second_request_goes_where_the_system_prompt_is(tmp_path: Path) -> None:
    async with deployed(tmp_path / "state", None, tenants=TENANTS, plans=WIDE, workers=2) as stack:
        first = await _ask(stack, "acme", "0")
        assert first.cached_prompt_tokens == 0
        for number in range(1, 8):
            # The worker tells what it holds with its next report.
            await until(
                stack.workers, lambda views: all(not v.running_attempts for v in views), "idle"
            )
            await until(stack.queued, lambda queued: not queued, "the queue")
            usage = await _ask(stack, "acme", str(number))
            # By lot it would be elsewhere half of the time.
            assert usage.cached_prompt_tokens >= 128, f"request {number}"
        assert (await _ask(stack, "globex", "0")).cached_prompt_tokens == 0


async def _ask(stack: Deployment, tenant: str, text: str) -> Usage:
    request = GenerateRequest(
        model=stack.model,
        chat=ChatInput(
            messages=[
                ChatMessage(role="system", content=SYSTEM),
                ChatMessage(role="user", content=text),
            ]
        ),
        max_new_tokens=4,
        sampling=SamplingParams(temperature=0.0),
    )
    async with stack.inference() as inference:
        call = inference.Generate(request, metadata=stack.metadata(tenant), timeout=60)
        events: list[GenerateResponse] = [event async for event in call]
    return events[-1].finished.usage
