"""A receiver of webhooks: a real HTTP server that answers as a test tells it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field


@dataclass
class Received:
    """One request."""

    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Receiver:
    """What came, and what to answer.

    Attributes:
        statuses: answered one after the other; 200 once they are used up.
        headers: of every answer.
        delay_s: before an answer.
    """

    address: str = ""
    statuses: list[int] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    delay_s: float = 0.0
    received: list[Received] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://{self.address}/hook"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            headers: dict[str, str] = {}
            for line in head[1:]:
                name, _, value = line.partition(": ")
                if name:
                    headers[name.lower()] = value
            body = await reader.readexactly(int(headers["content-length"]))
            self.received.append(Received(head[0].split(" ")[1], headers, body))
            await asyncio.sleep(self.delay_s)
            status = self.statuses.pop(0) if self.statuses else 200
            lines = [f"HTTP/1.1 {status} As told", "content-length: 0"]
            lines += [f"{name}: {value}" for name, value in self.headers.items()]
            writer.write(("\r\n".join(lines) + "\r\n\r\n").encode())
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def receiving() -> AsyncIterator[Receiver]:
    receiver = Receiver()
    server = await asyncio.start_server(receiver.serve, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()[:2]
    receiver.address = f"{host}:{port}"
    try:
        yield receiver
    finally:
        server.close()
