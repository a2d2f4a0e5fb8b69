"""Files, batches and responses: what the gateway keeps, by the SDKs that know them."""

import asyncio
import time
from collections.abc import AsyncIterator

import openai
import pytest
import pytest_asyncio
from openai.types import Batch
from pydantic import SecretStr

from tests.contract.batch_lines import ENDED, ENDPOINT, EXPECTED, answers, batch_input
from tests.contract.node_sdk import NodeSdk, missing, node_sdk
from tests.contract.site import Site, in_thread
from tests.gateway.harness import MODEL, eventually
from tests.late import late_import

pytestmark = pytest.mark.asyncio(loop_scope="module")

QUESTION = "Weather in Paris?"
_LONGEST_S = 60.0
_LOOK_S = 0.1


def client_of(site: Site) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(
        base_url=site.base_url, api_key=site.secret(), max_retries=0, timeout=20.0
    )


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sdk() -> AsyncIterator[NodeSdk]:
    if why := missing():
        pytest.skip(why)
    async with node_sdk() as running:
        yield running


async def test_a_batch_by_the_asynchronous_client(site: Site) -> None:
    site.plays("Mi", "ld")
    async with client_of(site) as client:
        file = await client.files.create(file=("in.jsonl", batch_input()), purpose="batch")
        made = await client.batches.create(
            input_file_id=file.id, endpoint=ENDPOINT, completion_window="24h"
        )
        assert made.status in {"validating", "in_progress"}
        batch = made
        async with asyncio.timeout(_LONGEST_S):
            while batch.status not in ENDED:
                await asyncio.sleep(_LOOK_S)
                batch = await client.batches.retrieve(made.id)
        assert (batch.status, batch.output_file_id is None) == ("completed", False)
        assert batch.request_counts is not None
        counts = batch.request_counts
        assert (counts.total, counts.completed, counts.failed) == (3, 2, 1)
        output = await client.files.content(batch.output_file_id or "")
        errors = await client.files.content(batch.error_file_id or "")
        assert made.id in [one.id async for one in client.batches.list()]
        assert (await client.files.delete(file.id)).deleted
    assert answers(output.content) == EXPECTED
    assert "temperature" in errors.text


async def test_a_batch_by_the_blocking_client(site: Site) -> None:
    site.plays("Mi", "ld")

    def run() -> tuple[Batch, str]:
        with openai.OpenAI(base_url=site.base_url, api_key=site.secret()) as client:
            file = client.files.create(file=("in.jsonl", batch_input()), purpose="batch")
            batch = client.batches.create(
                input_file_id=file.id, endpoint=ENDPOINT, completion_window="24h"
            )
            ends_at = time.monotonic() + _LONGEST_S
            while batch.status not in ENDED and time.monotonic() < ends_at:
                time.sleep(_LOOK_S)
                batch = client.batches.retrieve(batch.id)
            return batch, client.files.content(batch.output_file_id or "").text

    batch, output = await in_thread(run)
    assert batch.status == "completed"
    assert answers(output) == EXPECTED


async def test_a_batch_is_cancelled(site: Site) -> None:
    site.plays("never", pause_after=0)
    async with client_of(site) as client:
        file = await client.files.create(file=("in.jsonl", batch_input()), purpose="batch")
        batch = await client.batches.create(
            input_file_id=file.id, endpoint=ENDPOINT, completion_window="24h"
        )
        await eventually(lambda: site.gateway.worker.running)
        batch = await client.batches.cancel(batch.id)
        assert batch.status in {"cancelling", "cancelled"}
        async with asyncio.timeout(_LONGEST_S):
            while batch.status not in ENDED:
                await asyncio.sleep(_LOOK_S)
                batch = await client.batches.retrieve(batch.id)
    assert batch.status == "cancelled"


@pytest.mark.needs("node")
async def test_a_batch_by_the_node_client(site: Site, sdk: NodeSdk) -> None:
    site.plays("Mi", "ld")
    client = {"baseURL": site.base_url, "apiKey": site.secret()}
    request = {"endpoint": ENDPOINT, "completion_window": "24h"}
    batch = await sdk.ask("batch", client, text=batch_input().decode(), request=request)
    async with asyncio.timeout(_LONGEST_S):
        while batch["status"] not in ENDED:
            await asyncio.sleep(_LOOK_S)
            batch = await sdk.ask("read_batch", client, of=batch["id"])
    assert batch["status"] == "completed"
    output = await sdk.ask("read_file", client, of=batch["output_file_id"])
    assert answers(output) == EXPECTED


async def test_responses_whole_streamed_and_continued(site: Site) -> None:
    site.plays("Mi", "ld")
    async with client_of(site) as client:
        whole = await client.responses.create(model=MODEL, input=QUESTION)
        stream = await client.responses.create(model=MODEL, input=QUESTION, stream=True)
        texts = [e.delta async for e in stream if e.type == "response.output_text.delta"]
        again = await client.responses.create(
            model=MODEL, input="And in Rome?", previous_response_id=whole.id
        )
        assert (await client.responses.retrieve(whole.id)).output_text == "Mild"
        await client.responses.delete(whole.id)
        with pytest.raises(openai.NotFoundError):
            await client.responses.retrieve(whole.id)
    assert whole.output_text == "".join(texts) == again.output_text == "Mild"
    assert QUESTION in site.prompt


async def test_a_response_in_the_background(site: Site) -> None:
    site.plays("Mi", "ld")
    async with client_of(site) as client:
        response = await client.responses.create(model=MODEL, input=QUESTION, background=True)
        assert response.status in {"queued", "in_progress"}
        async with asyncio.timeout(_LONGEST_S):
            while response.status in {"queued", "in_progress"}:
                await asyncio.sleep(_LOOK_S)
                response = await client.responses.retrieve(response.id)
    assert (response.status, response.output_text) == ("completed", "Mild")


@pytest.mark.needs("node")
async def test_responses_by_the_node_client(site: Site, sdk: NodeSdk) -> None:
    site.plays("Mi", "ld")
    client = {"baseURL": site.base_url, "apiKey": site.secret()}
    request = {"model": MODEL, "input": QUESTION}
    whole = await sdk.ask("respond", client, request=request)
    assert whole["output_text"] == "Mild"
    events = await sdk.ask("respond_streamed", client, request=request | {"stream": True})
    deltas = [e["delta"] for e in events if e["type"] == "response.output_text.delta"]
    assert "".join(deltas) == "Mild"


async def test_responses_by_langchain(site: Site) -> None:
    site.plays("Mi", "ld", step_s=0.005)
    chat = late_import("langchain_openai").ChatOpenAI(
        base_url=site.base_url,
        api_key=SecretStr(site.secret()),
        model=MODEL,
        max_retries=0,
        use_responses_api=True,
    )
    assert (await chat.ainvoke(QUESTION)).text == "Mild"
    assert "".join([chunk.text async for chunk in chat.astream(QUESTION)]) == "Mild"
