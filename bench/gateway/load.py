"""A client process: so many connections, each asking again as soon as it is answered.

python -m bench.gateway.load URL... --seconds 5 --clients 16 --tokens 64 [--stream]

The key comes in `BENCH_KEY`. Prints one JSON line. It reads HTTP itself, so that it costs little
beside what it measures, and costs the same for whoever is measured.
"""

import argparse
import asyncio
import json
import os
import re
import time
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import uvloop

from bench.workload import percentile

_TEXT = re.compile(rb'"content": ?"([^"]+)"')
_ANSWER_S = 60.0


@dataclass
class Counted:
    """What all connections saw."""

    seconds: list[float] = field(default_factory=list)
    events: int = 0
    characters: int = 0
    errors: int = 0
    first_error: str = ""


class Connection:
    """One kept connection to one gateway."""

    def __init__(self, url: str, request: bytes) -> None:
        self._url = urlsplit(url)
        self._request = request
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def ask(self) -> tuple[int, bytes]:
        """Status and body of one answer, to its end."""
        if self._reader is None or self._writer is None:
            self._reader, self._writer = await asyncio.open_connection(
                self._url.hostname, self._url.port, limit=1 << 20
            )
        self._writer.write(self._request)
        head = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        status = int(head.split(b" ", 2)[1])
        length = re.search(rb"\r\ncontent-length: *(\d+)", head)
        if length is not None:
            return status, await self._reader.readexactly(int(length[1]))
        return status, await self._chunks(self._reader)

    def close(self) -> None:
        """Closes it."""
        if self._writer is not None:
            self._writer.close()

    @staticmethod
    async def _chunks(reader: asyncio.StreamReader) -> bytes:
        parts: list[bytes] = []
        while True:
            size = int((await reader.readline()).split(b";")[0], 16)
            part = await reader.readexactly(size + 2)
            if size == 0:
                return b"".join(parts)
            parts.append(part[:-2])


async def load(
    urls: list[str], *, body: bytes, key: str, clients: int, seconds: float, stream: bool
) -> dict[str, object]:
    """Rate, latencies, and what streams brought: events with text, and its characters."""
    counted = Counted()
    connections = [
        Connection(url, _request(url, body, key))
        for number in range(clients)
        for url in [urls[number % len(urls)]]
    ]
    began = time.perf_counter()
    until = began + seconds

    async def one(connection: Connection) -> None:
        while (start := time.perf_counter()) < until:
            async with asyncio.timeout(_ANSWER_S):
                status, answer = await connection.ask()
            counted.seconds.append(time.perf_counter() - start)
            if stream:
                texts = _TEXT.findall(answer)
                counted.events += len(texts)
                counted.characters += sum(map(len, texts))
            if status != 200 or (stream and not answer.rstrip().endswith(b"data: [DONE]")):
                counted.errors += 1
                counted.first_error = counted.first_error or answer[:300].decode(errors="replace")

    try:
        await asyncio.gather(*map(one, connections))
    finally:
        for connection in connections:
            connection.close()
    wall_s = time.perf_counter() - began
    return {
        "requests": len(counted.seconds),
        "errors": counted.errors,
        "first_error": counted.first_error,
        "rps": len(counted.seconds) / wall_s,
        "wall_s": wall_s,
        "events": counted.events,
        "characters": counted.characters,
        "p50_ms": percentile(counted.seconds, 0.5) * 1e3,
        "p99_ms": percentile(counted.seconds, 0.99) * 1e3,
    }


def _request(url: str, body: bytes, key: str) -> bytes:
    at = urlsplit(url)
    head = (
        f"POST {at.path} HTTP/1.1\r\nhost: {at.netloc}\r\nauthorization: Bearer {key}\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def main() -> None:
    """Measure once."""
    parser = argparse.ArgumentParser()
    parser.add_argument("urls", nargs="+")
    parser.add_argument("--model", required=True)
    parser.add_argument("--clients", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--tokens", type=int, required=True)
    parser.add_argument("--stream", action="store_true")
    args = parser.parse_args()
    messages = [{"role": "user", "content": "hello"}]
    body = {"model": args.model, "messages": messages, "max_tokens": args.tokens}
    body |= {"stream": True} if args.stream else {}
    figures = uvloop.run(
        load(
            args.urls,
            body=json.dumps(body).encode(),
            key=os.environ["BENCH_KEY"],
            clients=args.clients,
            seconds=args.seconds,
            stream=args.stream,
        )
    )
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
