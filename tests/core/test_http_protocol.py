"""The bounds of an HTTP head, against a real server."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from weir_core.process import http_protocol
from weir_core.process.http import HttpServer


async def _hello(_: object) -> PlainTextResponse:
    return PlainTextResponse("hello")


@pytest.fixture
async def address() -> AsyncIterator[tuple[str, int]]:
    app = Starlette(routes=[Route("/", _hello)])
    server = HttpServer(app, address="127.0.0.1:0", knob="address", graceful_s=1)
    await server.start()
    host, _, port = server.address.rpartition(":")
    yield host, int(port)
    await server.stop()


async def _ask(address: tuple[str, int], *parts: bytes) -> bytes:
    reader, writer = await asyncio.open_connection(*address)
    try:
        for part in parts:
            writer.write(part)
            await writer.drain()
        async with asyncio.timeout(10):
            return await reader.read(64)
    except ConnectionError:
        return b"reset"
    finally:
        writer.close()


async def test_a_head_without_end_is_refused(address: tuple[str, int]) -> None:
    endless = (b"a" * 65_536 for _ in range(200))
    answer = await _ask(address, b"GET / HTTP/1.1\r\nX: ", *endless)
    assert answer.startswith(b"HTTP/1.1 431") or answer == b"reset"


async def test_silence_is_ended(address: tuple[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_protocol, "HEAD_TIMEOUT_S", 0.2)
    assert (await _ask(address)).startswith(b"HTTP/1.1 408")
    assert (await _ask(address, b"GET / HT")).startswith(b"HTTP/1.1 408")


async def test_requests_on_a_kept_connection_are_served(address: tuple[str, int]) -> None:
    reader, writer = await asyncio.open_connection(*address)
    for _ in range(3):
        writer.write(b"GET / HTTP/1.1\r\nhost: x\r\ncookie: " + b"c" * 30_000 + b"\r\n\r\n")
        async with asyncio.timeout(10):
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200")
            assert await reader.readexactly(5) == b"hello"
    writer.close()
