"""The body of a request that a Starlette handler serves, read with bounds."""

from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.types import Message

from weir_gateway.openai.exchange import ClientLeft, Exchange
from weir_gateway.openai.json_body import parse_object

_STALL_S = 30.0


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
        return parse_object(await exchange.body())
    except ClientLeft:
        raise ClientDisconnect from None


async def _send_nothing(_: Message) -> None:
    raise AssertionError("a body is read, nothing is sent")
