"""Servers that answer badly, through both doors of `weir bench`."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest

from weir.common.v1.usage_pb2 import Usage
from weir.gateway.v1.inference_service_pb2 import (
    Delta,
    Finished,
    GenerateRequest,
    GenerateResponse,
)
from weir.gateway.v1.inference_service_pb2_grpc import (
    InferenceServiceServicer,
    add_InferenceServiceServicer_to_server,
)
from weir_cli.load.figures import LoadFigures, load_figures
from weir_cli.load.goodput import Targets
from weir_cli.load.grpc_target import GrpcTarget
from weir_cli.load.http_target import Endpoint, HttpTarget
from weir_cli.load.load_request import LoadRequest
from weir_cli.load.open_loop import Offered, OpenLoop
from weir_cli.load.prompts import IdPrompts, WordPrompts
from weir_cli.load.target import Asked, Target
from weir_core.errors import Reason
from weir_core.errors.exceptions import LimitExceeded, Violation
from weir_core.errors.status import grpc_code, to_trailers

_ASKED = Asked("m", {"a": "secret-a", "b": ""})
Answer = Callable[[bytes, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def _server(answer: Answer) -> AsyncIterator[str]:
    """An HTTP server that answers each connection once."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        size = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
        await answer(head + await reader.readexactly(size), writer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


def _stream(*events: str) -> Answer:
    async def answer(_: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n")
        for event in events:
            writer.write(f"data: {event}\n\n".encode())
            await writer.drain()

    return answer


def _refuse(status: str, body: str) -> Answer:
    async def answer(_: bytes, writer: asyncio.StreamWriter) -> None:
        head = f"HTTP/1.1 {status}\r\ncontent-length: {len(body)}\r\n\r\n"
        writer.write((head + body).encode())
        await writer.drain()

    return answer


def _load(count: int, gap_s: float = 0.0, tenant: str = "a") -> list[LoadRequest]:
    return [LoadRequest(at, at * gap_s, tenant, 3, 2) for at in range(count)]


async def _run(target: Target, load: list[LoadRequest], most: int = 0) -> Offered:
    try:
        return await OpenLoop(target, WordPrompts(0), most).run(load)
    finally:
        await target.close()


def _figures(offered: Offered) -> LoadFigures:
    return load_figures(offered, Targets())


async def test_a_stream_is_timed_and_counted_as_the_server_counts() -> None:
    seen: list[bytes] = []
    answer = _stream(
        '{"choices":[{"delta":{"role":"assistant","content":""}}]}',
        '{"choices":[{"delta":{"content":"one"}}]}',
        '{"choices":[{"delta":{"content":" two"}}]}',
        '{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":4}}',
        "[DONE]",
    )

    async def noting(request: bytes, writer: asyncio.StreamWriter) -> None:
        seen.append(request)
        await answer(request, writer)

    async with _server(noting) as url:
        offered = await _run(HttpTarget(url, Endpoint.CHAT, _ASKED, 10), _load(2))
    figures = _figures(offered)
    assert figures.completed == 2
    assert (figures.prompt_tokens, figures.output_tokens) == (18, 8)
    assert all(len(one.arrivals) == 2 for one in offered.exchanges)
    assert all(b"authorization: Bearer secret-a" in one for one in seen)
    assert b'"ignore_eos":true' in seen[0]


async def test_what_refuses_is_counted_by_the_limit() -> None:
    told = '{"error":{"message":"60000 tokens are used","code":"x","limit_id":"tenant:a/tpm"}}'
    async with _server(_refuse("429 Too Many Requests", told)) as url:
        figures = _figures(await _run(HttpTarget(url, Endpoint.CHAT, _ASKED, 10), _load(3)))
    assert figures.failures == {"429 tenant:a/tpm": 3}
    assert figures.limited == 3
    assert figures.messages["429 tenant:a/tpm"] == "60000 tokens are used"


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (_stream('{"choices":[{"text":"x"}]}'), "broken stream"),
        (
            _stream('{"error":{"message":"gone","reason":"WORKER_LOST"}}', "[DONE]"),
            "200 WORKER_LOST",
        ),
        (_refuse("502 Bad Gateway", "<html>"), "502"),
        (_refuse("503 Service Unavailable", '{"detail":"no"}'), "503"),
    ],
)
async def test_an_answer_that_is_not_whole_is_a_failure(answer: Answer, kind: str) -> None:
    async with _server(answer) as url:
        figures = _figures(
            await _run(HttpTarget(url, Endpoint.COMPLETIONS, _ASKED, 10), _load(1, tenant="b"))
        )
    assert figures.failures == {kind: 1}
    assert figures.good == 0


async def test_a_server_that_is_away_or_silent_is_told() -> None:
    async def silent(_: bytes, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(5)

    async with _server(silent) as url:
        figures = _figures(await _run(HttpTarget(url, Endpoint.CHAT, _ASKED, 0.2), _load(1)))
    assert figures.failures == {"timeout": 1}
    gone = HttpTarget(url, Endpoint.CHAT, _ASKED, 10)
    assert _figures(await _run(gone, _load(1))).failures == {"ConnectError": 1}


async def test_a_stalled_server_cannot_hide_the_requests_that_it_held_up() -> None:
    """Coordinated omission: with one place, those behind a slow answer count from their moment."""
    release = asyncio.Event()
    begun = 0

    async def stall_once(request: bytes, writer: asyncio.StreamWriter) -> None:
        nonlocal begun
        begun += 1
        if begun == 1:
            await release.wait()
        await _stream('{"choices":[{"text":"x"}]}', "[DONE]")(request, writer)

    async with _server(stall_once) as url:
        target = HttpTarget(url, Endpoint.COMPLETIONS, _ASKED, 30)
        running = asyncio.create_task(_run(target, _load(5, gap_s=0.01), most=1))
        await asyncio.sleep(0.6)
        release.set()
        offered = await running
    assert all((one.ttft_s or 0) > 0.5 for one in offered.exchanges)
    assert _figures(offered).late.mean is not None
    assert (_figures(offered).late.mean or 0) > 300


async def test_without_places_a_stalled_server_gets_every_request_at_its_moment() -> None:
    release = asyncio.Event()
    begun: list[int] = []

    async def stall(request: bytes, writer: asyncio.StreamWriter) -> None:
        begun.append(len(begun))
        if len(begun) == 5:
            release.set()
        async with asyncio.timeout(20):
            await release.wait()
        await _stream('{"choices":[{"text":"x"}]}', "[DONE]")(request, writer)

    async with _server(stall) as url:
        offered = await _run(HttpTarget(url, Endpoint.COMPLETIONS, _ASKED, 30), _load(5, 0.01))
    assert _figures(offered).completed == 5


async def test_a_closed_load_ends_when_its_time_is_over() -> None:
    async with _server(_stream('{"choices":[{"text":"x"}]}', "[DONE]")) as url:
        target = HttpTarget(url, Endpoint.COMPLETIONS, _ASKED, 10)
        try:
            offered = await OpenLoop(target, WordPrompts(0), 2).run(_load(50_000), stop_s=0.3)
        finally:
            await target.close()
    assert 2 <= len(offered.exchanges) < 50_000
    assert all(one.sent_s - offered.begin_s < 5 for one in offered.exchanges)


class _Gateway(InferenceServiceServicer):
    """Answers the first, refuses the second by a limit, breaks off at the third."""

    def __init__(self) -> None:
        self.requests: list[GenerateRequest] = []

    async def Generate(  # noqa: N802
        self, request: GenerateRequest, context: Any
    ) -> AsyncIterator[GenerateResponse]:
        self.requests.append(request)
        if len(self.requests) == 2:
            violation = Violation("tenant:a/rpm", "rps", "requests", "tenant", 1, 1, 1, 0, "rpm")
            error = LimitExceeded(
                Reason.RATE_LIMIT_EXCEEDED, "one a minute", [violation], retry_after_s=9
            )
            context.set_trailing_metadata(to_trailers(error))
            await context.abort(grpc_code(error), error.message, to_trailers(error))
        yield GenerateResponse(delta=Delta(text="a", token_ids=[5]))
        yield GenerateResponse(delta=Delta(text="bc", token_ids=[6, 7]))
        if len(self.requests) != 3:
            usage = Usage(prompt_tokens=3, completion_tokens=3)
            yield GenerateResponse(finished=Finished(usage=usage))


async def test_the_grpc_door_tells_the_same() -> None:
    server = grpc.aio.server()
    gateway = _Gateway()  # type: ignore[abstract]
    add_InferenceServiceServicer_to_server(gateway, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    channel = grpc.aio.insecure_channel(f"127.0.0.1:{port}")
    target = GrpcTarget(channel, Endpoint.CHAT, _ASKED, 10)
    try:
        offered = await OpenLoop(target, IdPrompts(0, range(7, 9)), 1).run(_load(3))
    finally:
        await target.close()
        await server.stop(None)
    figures = _figures(offered)
    assert figures.failures == {"429 tenant:a/rpm": 1, "broken stream": 1}
    assert [tokens for _, tokens in offered.exchanges[0].arrivals] == [1, 2]
    assert figures.output_tokens == 3
    assert set(gateway.requests[0].token_input.token_ids) <= {7, 8}
    assert gateway.requests[0].sampling.ignore_eos
