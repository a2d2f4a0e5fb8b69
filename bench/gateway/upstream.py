"""An engine that answers at once, for gateways that have none: OpenAI's API with fixed answers.

uvicorn bench.gateway.upstream:app
"""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

MODEL = "m"
TOKENS = ("hi ", "ho ")
"""In turn: LiteLLM ends a stream that says the same a hundred times."""
_HEAD = {"id": "x", "created": 1, "model": MODEL}
_INFO = {
    "model_path": MODEL,
    "served_model_name": MODEL,
    "is_generation": True,
    "tokenizer_path": MODEL,
}


async def complete(request: Request) -> Response:
    """`max_tokens` pieces of a stream, or one short answer."""
    body = await request.json()
    if body.get("stream"):
        tokens = body.get("max_tokens") or body.get("max_completion_tokens") or 1
        return StreamingResponse(_chunks(tokens), media_type="text/event-stream")
    choice = {"index": 0, "message": {"role": "assistant", "content": "hi"}}
    usage = {"prompt_tokens": 5, "completion_tokens": 1, "total_tokens": 6}
    return JSONResponse(
        _HEAD
        | {"object": "chat.completion", "usage": usage}
        | {"choices": [choice | {"finish_reason": "stop"}]}
    )


async def _chunks(tokens: int) -> AsyncIterator[str]:
    told = [f"data: {json.dumps(_chunk(token))}\n\n" for token in TOKENS]
    for number in range(tokens):
        yield told[number % len(told)]
    yield "data: [DONE]\n\n"


def _chunk(token: str) -> dict[str, Any]:
    choice = {"index": 0, "delta": {"content": token}, "finish_reason": None}
    return _HEAD | {"object": "chat.completion.chunk", "choices": [choice]}


def _fixed(answer: Any) -> Callable[[Request], Awaitable[Response]]:
    async def page(_: Request) -> Response:
        return JSONResponse(answer)

    return page


_MODELS = [{"id": MODEL, "object": "model", "created": 1, "owned_by": "x", "max_model_len": 8192}]
app = Starlette(
    routes=[
        Route("/v1/chat/completions", complete, methods=["POST"]),
        Route("/v1/models", _fixed({"object": "list", "data": _MODELS})),
        Route("/health", _fixed({"status": "ok"})),
        # What SMG asks an engine for when it starts.
        Route("/version", _fixed({"version": "0.33.0"})),
        *(
            Route(path, _fixed(_INFO))
            for path in ("/get_model_info", "/model_info", "/get_server_info", "/server_info")
        ),
        Route("/get_load", _fixed([{"num_reqs": 0}])),
    ]
)
