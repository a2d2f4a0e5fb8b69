"""Who is told that a batch has ended."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.gateway.batches.site import BatchSite, chat_lines
from tests.gateway.harness import eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")


@asynccontextmanager
async def receiver() -> AsyncIterator[tuple[str, list[dict[str, Any]]]]:
    """A URL, and the events that come there."""
    events: list[dict[str, Any]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(head.split("content-length:")[1].split("\r\n")[0])
        assert "webhook-signature:" in head
        events.append(json.loads(await reader.readexactly(length)))
        writer.write(b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/hook", events
    finally:
        server.close()


async def test_the_url_of_a_batch_hears_of_its_end_once_and_of_no_line(site: BatchSite) -> None:
    async with receiver() as (url, events):
        done = await site.create(chat_lines(3), extra_body={"webhook_url": url})
        bad = await site.create([b"{"], extra_body={"webhook_url": url})
        await site.ended(done.id, "completed")
        await site.ended(bad.id, "failed")
        site.gateway.worker.script.pause_after = 1
        stopped = await site.create(chat_lines(3), extra_body={"webhook_url": url})
        await eventually(lambda: site.gateway.worker.running)
        await site.gateway.openai().batches.cancel(stopped.id)
        site.gateway.worker.resume.set()
        await site.ended(stopped.id, "cancelled")
        await eventually(lambda: len(events) >= 3)
    told = {(event["type"], event["data"]["id"]) for event in events}
    assert told == {
        ("batch.completed", done.id),
        ("batch.failed", bad.id),
        ("batch.cancelled", stopped.id),
    }
    assert len(events) == 3
