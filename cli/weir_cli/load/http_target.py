"""An OpenAI-compatible server over HTTP, streamed."""

import asyncio
import time
from enum import StrEnum
from typing import Any

import httpx2
import orjson

from weir_cli.load.exchange import Exchange, Failure
from weir_cli.load.prompts import Prompt
from weir_cli.load.target import Asked

_MOST_TOLD = 300
_DATA = b"data:"
_DONE = b"[DONE]"


class Endpoint(StrEnum):
    """Where prompts go."""

    CHAT = "chat"
    COMPLETIONS = "completions"


class HttpTarget:
    """Sends to `/v1/chat/completions` or `/v1/completions`.

    Args:
        url: base of the server, with or without `/v1`.
        endpoint: which of the two.
        asked: of every request.
        timeout_s: of a whole answer.
        verify: whom to trust over https; see httpx2.
    """

    def __init__(
        self, url: str, endpoint: Endpoint, asked: Asked, timeout_s: float, verify: Any = True
    ) -> None:
        base = url.rstrip("/").removesuffix("/v1")
        path = "chat/completions" if endpoint is Endpoint.CHAT else "completions"
        self._url = f"{base}/v1/{path}"
        self._endpoint = endpoint
        self._asked = asked
        self._timeout_s = timeout_s
        # Deadlines are of whole answers; a pool with a bound would hold requests back unseen.
        unbounded = httpx2.Limits(max_connections=None, max_keepalive_connections=None)
        self._client = httpx2.AsyncClient(timeout=None, limits=unbounded, verify=verify)

    async def close(self) -> None:
        """Ends the connections."""
        await self._client.aclose()

    async def send(self, exchange: Exchange, prompt: Prompt) -> None:
        """See `Target`."""
        key = self._asked.keys.get(exchange.request.tenant, "")
        headers = {"content-type": "application/json"}
        headers |= {"authorization": f"Bearer {key}"} if key else {}
        body = orjson.dumps(self._body(exchange, prompt))
        exchange.sent_s = time.monotonic()
        try:
            async with (
                asyncio.timeout(self._timeout_s),
                self._client.stream("POST", self._url, content=body, headers=headers) as answer,
            ):
                if answer.status_code != 200:
                    exchange.failure = refusal(answer.status_code, await answer.aread())
                else:
                    await _read(answer, exchange)
        except TimeoutError:
            told = f"no whole answer within {self._timeout_s:g} s"
            exchange.failure = Failure("timeout", told)
        except httpx2.HTTPError as error:
            exchange.failure = Failure(type(error).__name__, str(error)[:_MOST_TOLD])
        exchange.end_s = time.monotonic()
        exchange.output_tokens = exchange.output_tokens or sum(n for _, n in exchange.arrivals)

    def _body(self, exchange: Exchange, prompt: Prompt) -> dict[str, Any]:
        asked, request = self._asked, exchange.request
        body: dict[str, Any] = {
            "model": asked.model,
            "max_tokens": request.output_tokens,
            "temperature": asked.temperature,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if asked.ignore_eos:
            body["ignore_eos"] = True
        if self._endpoint is Endpoint.CHAT:
            return body | {"messages": [{"role": "user", "content": prompt}]}
        return body | {"prompt": prompt}


async def _read(answer: httpx2.Response, exchange: Exchange) -> None:
    """Events of a stream. One without its end is a failure."""
    done = False
    async for line in answer.aiter_lines():
        if not line.startswith("data:"):
            continue
        data = line[len(_DATA) :].strip().encode()
        if data == _DONE:
            done = True
        else:
            _note(orjson.loads(data), exchange)
    if not done and exchange.failure is None:
        exchange.failure = Failure("broken stream", "the answer ended without [DONE]")


def _note(event: dict[str, Any], exchange: Exchange) -> None:
    if "error" in event:
        exchange.failure = _told_failure(200, event)
        return
    if any(_has_text(choice) for choice in event.get("choices") or ()):
        exchange.arrivals.append((time.monotonic(), 1))
    usage = event.get("usage")
    if usage:
        exchange.prompt_tokens = int(usage.get("prompt_tokens") or 0)
        exchange.output_tokens = int(usage.get("completion_tokens") or 0)


def _has_text(choice: dict[str, Any]) -> bool:
    delta = choice.get("delta") or {}
    return bool(choice.get("text") or delta.get("content") or delta.get("reasoning_content"))


def refusal(status: int, body: bytes) -> Failure:
    """What an answer other than 200 says."""
    try:
        told = orjson.loads(body)
    except orjson.JSONDecodeError:
        told = None
    if isinstance(told, dict):
        return _told_failure(status, told)
    return Failure(f"{status}", body[:_MOST_TOLD].decode(errors="replace"))


def _told_failure(status: int, told: dict[str, Any]) -> Failure:
    error = told.get("error")
    if not isinstance(error, dict):
        return Failure(f"{status}", str(error or told)[:_MOST_TOLD])
    by = error.get("limit_id") or error.get("reason") or error.get("code") or error.get("type")
    return Failure(f"{status} {by or ''}".strip(), str(error.get("message", ""))[:_MOST_TOLD])
