"""Waiting, pre-emption and retries happen inside one reservation: one request, one charge."""

import asyncio

import grpc
import pytest

from tests.e2e.counted import books_closed
from tests.e2e.deployment import Deployment
from tests.e2e.streams import Seen, stream
from tests.e2e.wait import until
from tests.e2e.workers import terminal_records

pytestmark = [pytest.mark.timeout(120), pytest.mark.asyncio(loop_scope="session")]


async def test_26_a_wait_beyond_the_deadline_is_refunded_whole(counting: Deployment) -> None:
    """The tenant may run one request at once: the second one waits in vain."""
    first, second = Seen("queueing"), Seen("queueing")
    running = asyncio.create_task(stream(counting, first, [1] * 20, 600))

    async def tokens() -> int:
        return first.tokens

    await until(tokens, lambda count: count > 0, "the first token")
    # Long enough to be let in on a busy machine, and shorter than the first runs.
    await stream(counting, second, [1] * 20, 50, timeout_s=2.0)
    assert (second.code, second.tokens) == (grpc.StatusCode.DEADLINE_EXCEEDED, 0)
    await running
    rows = [r for r in await books_closed(counting, ["queueing"]) if r.tenant == "queueing"]
    by_id = {row.request_id: row for row in rows}
    assert len(rows) == len(by_id) == 2
    given_back = by_id[second.request_id]
    assert (given_back.requests, given_back.tokens, given_back.nanos) == (0, 0, 0)
    assert (by_id[first.request_id].requests, by_id[first.request_id].tokens) == (1, 620)


async def test_27_a_preempted_request_is_counted_and_charged_once(counting: Deployment) -> None:
    """Three requests need 57 blocks of 40: one has to make room, and computes again."""
    seen = [Seen("preempted") for _ in range(3)]
    prompts = [[number] * 180 for number in range(3)]
    await asyncio.gather(
        *(stream(counting, one, prompt, 120) for one, prompt in zip(seen, prompts, strict=True))
    )
    rows = [r for r in await books_closed(counting, ["preempted"]) if r.tenant == "preempted"]
    records = await terminal_records(counting, [one.request_id for one in seen])
    assert sum(record.preemptions for record in records.values()) >= 1
    assert {row.request_id for row in rows} == set(records)
    assert [(row.kind, row.requests, row.tokens) for row in rows] == [("charge", 1, 300)] * 3
