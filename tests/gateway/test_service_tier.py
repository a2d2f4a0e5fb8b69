"""`service_tier` stands for class and priority, and the answer tells which was used."""

from typing import Any

import openai
import pytest

from tests.gateway.harness import MODEL, Gateway
from weir.common.v1.subject_pb2 import RequestClass

pytestmark = pytest.mark.asyncio(loop_scope="module")
BATCH = RequestClass.REQUEST_CLASS_BATCH
INTERACTIVE = RequestClass.REQUEST_CLASS_INTERACTIVE
ASK: dict[str, Any] = {
    "model": MODEL,
    "messages": [{"role": "user", "content": "hi"}],
    "max_tokens": 1,
}


@pytest.mark.parametrize(
    ("asked", "used", "request_class", "priority"),
    [
        ("auto", "default", INTERACTIVE, 0),
        ("default", "default", INTERACTIVE, 0),
        ("flex", "flex", BATCH, 0),
        # The most that the plan of the tests allows.
        ("priority", "priority", INTERACTIVE, 10),
    ],
)
async def test_a_tier_is_class_and_priority(
    gateway: Gateway, asked: Any, used: str, request_class: int, priority: int
) -> None:
    answer = await gateway.openai().chat.completions.create(**ASK, service_tier=asked)
    assert answer.service_tier == used
    enqueued = gateway.scheduler.enqueued[0]
    assert getattr(enqueued, "class") == request_class
    assert enqueued.priority == priority
    stream = await gateway.openai().chat.completions.create(**ASK, service_tier=asked, stream=True)
    assert {chunk.service_tier async for chunk in stream} == {used}


async def test_who_may_have_no_priority_is_told(gateway: Gateway) -> None:
    document = gateway.document
    policy = document["plans"][0]["policy"]
    policy["max_priority"] = 0
    try:
        await gateway.reload(document)
        answer = await gateway.openai().chat.completions.create(**ASK, service_tier="priority")
        assert answer.service_tier == "default"
        assert gateway.scheduler.enqueued[0].priority == 0
    finally:
        policy["max_priority"] = 10
        await gateway.reload(document)


@pytest.mark.parametrize(
    "fields",
    [
        {"service_tier": "scale"},
        {"service_tier": "flex", "extra_body": {"class": "interactive"}},
        {"service_tier": "priority", "extra_body": {"priority": 3}},
    ],
)
async def test_a_tier_that_cannot_be(gateway: Gateway, fields: dict[str, Any]) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        await gateway.openai().chat.completions.create(**ASK, **fields)
    assert refused.value.param == "service_tier"
