"""An OpenAI-compatible engine that follows a script, over real HTTP."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

MODEL = "their-model"


class UpstreamServer:
    """Streams letters, one token each.

    Attributes:
        bodies: of the requests.
        open: streams that are being served.
        closed_early: streams whose client went away.
        tells_ids, tells_usage: what its chunks carry.
        status: answered instead of a stream unless 200.
        hold: streams wait for it before each token but the first.
        script: sent in place of the letters, if any, and again without end if `endless`.
        embedding: what every input has.
        finish: the reason with which streams end; None: they just stop.
        models: names in its list; None: it does not answer as an OpenAI API does.
    """

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.open = 0
        self.closed_early = 0
        self.tells_ids = True
        self.tells_usage = True
        self.status = 200
        self.said = ""
        self.script: list[str] = []
        self.endless = False
        self.hold = asyncio.Event()
        self.hold.set()
        self.finish: str | None = "length"
        self.embedding: list[float] = [3.0, 4.0]
        self.models: list[str] | None = [MODEL]
        self.authorizations: list[str] = []
        self.url = ""
        self.server: uvicorn.Server | None = None

    async def list_models(self, request: Request) -> Response:
        self.authorizations.append(request.headers.get("authorization", ""))
        if self.models is None:
            return JSONResponse({"error": "no"})
        return JSONResponse({"object": "list", "data": [{"id": name} for name in self.models]})

    async def complete(self, request: Request) -> Response:
        body = await request.json()
        self.bodies.append(body)
        if self.script:
            return StreamingResponse(self._scripted(), self.status, media_type="text/event-stream")
        if self.status != 200:
            return Response(self.said, self.status)
        return StreamingResponse(self._stream(body), media_type="text/event-stream")

    async def embed(self, request: Request) -> Response:
        body = await request.json()
        self.bodies.append(body)
        if self.status != 200:
            return Response(self.said, self.status)
        data = [{"object": "embedding", "index": 0, "embedding": self.embedding}]
        usage = {"prompt_tokens": len(body["input"]), "total_tokens": len(body["input"])}
        return JSONResponse({"object": "list", "data": data, "usage": usage})

    async def _scripted(self) -> AsyncIterator[str]:
        for part in self.script:
            yield part
        while self.endless:
            yield self.script[-1]
            await asyncio.sleep(0)

    async def _stream(self, body: dict[str, Any]) -> AsyncIterator[str]:
        self.open += 1
        sent = 0
        try:
            for sent in range(1, body["max_tokens"] + 1):
                if sent > 1:
                    await self.hold.wait()
                letter = 97 + (sent - 1) % 26
                choice: dict[str, Any] = {"index": 0, "text": chr(letter), "finish_reason": None}
                if self.tells_ids:
                    choice["token_ids"] = [letter]
                yield _event({"choices": [choice]})
            if self.finish is not None:
                last = {"index": 0, "text": "", "finish_reason": self.finish}
                yield _event({"choices": [last]})
            if self.tells_usage:
                usage = {
                    "prompt_tokens": len(body["prompt"]),
                    "completion_tokens": sent,
                    "total_tokens": len(body["prompt"]) + sent,
                    "prompt_tokens_details": {"cached_tokens": 4},
                }
                yield _event({"choices": [], "usage": usage})
            yield "data: [DONE]\n\n"
        except asyncio.CancelledError:
            self.closed_early += 1
            raise
        finally:
            self.open -= 1


def _event(chunk: dict[str, Any]) -> str:
    return f"data: {json.dumps(chunk)}\n\n"


@asynccontextmanager
async def running_upstream() -> AsyncIterator[UpstreamServer]:
    upstream = UpstreamServer()
    app = Starlette(
        routes=[
            Route("/v1/models", upstream.list_models),
            Route("/v1/completions", upstream.complete, methods=["POST"]),
            Route("/v1/embeddings", upstream.embed, methods=["POST"]),
        ]
    )
    sock = socket.create_server(("127.0.0.1", 0))
    upstream.url = f"http://127.0.0.1:{sock.getsockname()[1]}/v1"
    config = uvicorn.Config(app, log_config=None, lifespan="off", timeout_graceful_shutdown=0)
    upstream.server = uvicorn.Server(config)
    serving = asyncio.create_task(upstream.server.serve(sockets=[sock]))
    try:
        yield upstream
    finally:
        upstream.hold.set()
        upstream.server.should_exit = True
        await asyncio.wait_for(serving, 10)
