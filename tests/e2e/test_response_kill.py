"""kill -9 of the gateway while a background response is made: one answer, told and charged once."""

import os
import signal
from typing import Any

import httpx2
import openai
import pytest

from tests.e2e.bill import bill
from tests.e2e.deployment import Deployment
from tests.e2e.wait import until

pytestmark = pytest.mark.asyncio(loop_scope="session")

TENANT, OUTPUT, SEEN = "answering", 400, 20


@pytest.mark.timeout(150)
async def test_its_events_go_on_after_the_gateway_was_killed(counting: Deployment) -> None:
    events: list[Any] = []
    async with openai.AsyncOpenAI(
        base_url=counting.base_url, api_key=counting.secret(TENANT), max_retries=0, timeout=30
    ) as client:
        stream = await client.responses.create(
            model=counting.model,
            input="Count.",
            max_output_tokens=OUTPUT,
            background=True,
            stream=True,
        )

        async def read_and_kill() -> None:
            async for event in stream:
                events.append(event)
                if len(events) == SEEN:
                    os.kill(counting.stack.pids["gateway"], signal.SIGKILL)

        with pytest.raises((openai.APIError, httpx2.TransportError)):
            await read_and_kill()
        response_id = events[0].response.id

        async def read_on() -> Any:
            """The last event, once the rest could be read."""
            try:
                after = events[-1].sequence_number
                rest = await client.responses.retrieve(
                    response_id, stream=True, starting_after=after
                )
                events.extend([event async for event in rest])
            except openai.APIError:
                return None
            return events[-1].type

        await until(read_on, lambda last: last == "response.incomplete", "the end", timeout_s=90)
        kept = await client.responses.retrieve(response_id)
    assert [event.sequence_number for event in events] == list(range(len(events)))
    kinds = [event.type for event in events if "delta" not in event.type]
    assert kinds.count("response.in_progress") == kinds.count("response.output_item.done") == 1
    text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    assert text == events[-1].response.output_text == kept.output_text
    assert kept.usage is not None
    assert kept.usage.output_tokens == OUTPUT
    due = kept.usage.total_tokens

    async def charged() -> int:
        return sum(row.tokens for row in await bill(counting) if row.tenant == TENANT)

    await until(charged, lambda tokens: tokens == due, "one charge", timeout_s=45)
