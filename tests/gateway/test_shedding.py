"""What the scheduler sheds is final: told to the client, tried by nobody."""

import pytest

from tests.gateway.harness import Gateway
from weir.common.v1.error_reason_pb2 import ErrorReason
from weir.scheduler.v1.scheduler_service_pb2 import Enqueue, Rejected

pytestmark = pytest.mark.asyncio(loop_scope="module")


def overloaded(enqueue: Enqueue) -> Rejected:
    rejected = Rejected(
        request_id=enqueue.request_id,
        error_reason=ErrorReason.ERROR_REASON_OVERLOADED,
        message="the request would wait about 42 s and queue_timeout_ms allows 30.0 s",
        metadata={"limit": "queue_timeout_ms", "scope": "tenant"},
    )
    rejected.retry_after.FromMilliseconds(13_250)
    return rejected


@pytest.mark.parametrize("stream", [False, True])
async def test_case_24_smg_2220_a_shed_is_not_retried_and_tells_when_to_come(
    gateway: Gateway, stream: bool
) -> None:
    gateway.scheduler.reject = overloaded
    response = await gateway.chat(stream=stream)
    assert response.status_code == 503
    assert response.headers["retry-after"] == "14"
    assert response.headers["retry-after-ms"] == "13250"
    assert "queue_timeout_ms" in response.json()["error"]["message"]
    assert len(gateway.scheduler.enqueued) == 1
    assert gateway.worker.specs == []


async def test_case_7_litellm_36774_the_default_priority_applies_where_none_is_sent(
    gateway: Gateway,
) -> None:
    assert (await gateway.chat()).status_code == 200
    assert (await gateway.chat(priority=100)).status_code == 200
    without, clamped = gateway.scheduler.enqueued
    assert without.priority == 0
    assert 0 <= clamped.priority < 100
