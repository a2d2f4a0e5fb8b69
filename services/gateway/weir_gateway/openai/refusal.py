"""A refusal as it goes over HTTP."""

from dataclasses import dataclass

import orjson

from weir_core.errors import LimitExceeded, WeirError
from weir_core.errors.openai import to_http
from weir_gateway.openai.rate_headers import of_refusal


@dataclass(frozen=True, slots=True)
class Refusal:
    """Status, JSON body and headers."""

    status: int
    body: bytes
    headers: list[tuple[bytes, bytes]]


def openai_refusal(error: WeirError, request_id: str, now_us: int) -> Refusal:
    """An error in OpenAI's form."""
    status, body, headers = to_http(error, request_id)
    encoded = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
    if isinstance(error, LimitExceeded):
        encoded += of_refusal(error, now_us=now_us)
    return Refusal(status, orjson.dumps(body), encoded)
