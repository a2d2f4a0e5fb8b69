"""The body of a request that a Starlette handler serves, read with bounds."""

import asyncio
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.types import Message

from weir_gateway.openai.exchange import ClientLeft, Exchange
from weir_gateway.openai.json_body import parse_object

_STALL_S = 30.0
_MOST_ON_LOOP = 50_000


async def read_object(request: Request, max_body: int) -> dict[str, Any]:
    """The JSON object that the body holds.

    Args:
        request: of the handler; its body has not been read.
        max_body: bytes.

    Raises:
        WeirError: BODY_TOO_LARGE, DEADLINE_EXCEEDED, or INVALID_FIELD on `body`.
        ClientDisconnect: the client went away.
    """
    exchange = Exchange(
        request.scope, request.receive, _send_nothing, max_body=max_body, stall_s=_STALL_S
    )
    try:
        body = await exchange.body()
    except ClientLeft:
        raise ClientDisconnect from None
    large = len(body) > _MOST_ON_LOOP
    return await asyncio.to_thread(parse_object, body) if large else parse_object(body)


async def _send_nothing(_: Message) -> None:
    raise AssertionError("a body is read, nothing is sent")
