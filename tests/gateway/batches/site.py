"""How tests use batches."""

import asyncio
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, cast

from openai.types import Batch

from tests.gateway.harness import MODEL, Gateway

CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"
RESPONSES = "/v1/responses"


@dataclass
class BatchSite:
    gateway: Gateway

    async def upload(self, lines: Iterable[dict[str, Any] | bytes]) -> str:
        content = b"\n".join(
            line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines
        )
        file = await self.gateway.openai().files.create(
            file=("lines.jsonl", content), purpose="batch"
        )
        return file.id

    async def create(
        self, lines: Iterable[dict[str, Any] | bytes], endpoint: str = CHAT, **options: Any
    ) -> Batch:
        return await self.gateway.openai().batches.create(
            input_file_id=await self.upload(lines),
            endpoint=cast("Literal['/v1/chat/completions']", endpoint),
            completion_window="24h",
            **options,
        )

    async def until(
        self, batch_id: str, condition: Callable[[Batch], object], timeout_s: float = 60
    ) -> Batch:
        client = self.gateway.openai()
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + timeout_s
        while not condition(batch := await client.batches.retrieve(batch_id)):
            assert loop.time() < ends_at, batch
            await asyncio.sleep(0.05)
        return batch

    async def ended(self, batch_id: str, status: str, timeout_s: float = 60) -> Batch:
        ends = ("completed", "failed", "expired", "cancelled")
        batch = await self.until(batch_id, lambda one: one.status in ends, timeout_s)
        assert batch.status == status, batch
        return batch

    async def lines(self, file_id: str | None) -> list[dict[str, Any]]:
        if file_id is None:
            return []
        content = await self.gateway.openai().files.content(file_id)
        return [json.loads(line) for line in content.content.splitlines()]


def chat_line(number: int, **body: Any) -> dict[str, Any]:
    body = {
        "model": MODEL,
        "messages": [{"role": "user", "content": f"line {number}"}],
        "max_tokens": 2,
    } | body
    return {"custom_id": f"line-{number}", "method": "POST", "url": CHAT, "body": body}


def chat_lines(count: int, **body: Any) -> Iterator[dict[str, Any]]:
    return (chat_line(number, **body) for number in range(count))
