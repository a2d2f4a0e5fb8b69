"""`POST /v1/embeddings`, in OpenAI's shapes."""

import base64
import struct
from collections.abc import Sequence
from typing import Any

from weir_core.errors import InvalidField
from weir_core.telemetry.context import bind_request
from weir_gateway.caller.caller import Caller
from weir_gateway.caller.request_guard import GuardTicket
from weir_gateway.embeddings.desk import EmbeddingDesk
from weir_gateway.embeddings.order import EmbedOrder, check_input_count
from weir_gateway.flow.reception import Reception
from weir_gateway.idempotency.http_door import HEADER, HttpIdempotency
from weir_gateway.intake.checks import check_token_count
from weir_gateway.intake.shape import Shape
from weir_gateway.openai.dialect import request_headers
from weir_gateway.openai.endpoint import Endpoint
from weir_gateway.openai.exchange import Exchange
from weir_gateway.openai.fields import Fields
from weir_gateway.openai.json_body import parse_object
from weir_gateway.openai.rate_headers import of_statuses
from weir_gateway.openai.requests import model_name, own_fields
from weir_gateway.openai.sampling_fields import is_id
from weir_gateway.openai.unless_left import unless_left

_FORMATS = {"float": False, "base64": True}
_OWN = ("model_version", "latency_sla", "priority", "request_class")


class EmbeddingsEndpoint(Endpoint):
    """Embeddings of texts.

    Args:
        reception, idempotency, desk: see there.
        parts: of `Endpoint`.
    """

    def __init__(
        self,
        *,
        reception: Reception,
        idempotency: HttpIdempotency,
        desk: EmbeddingDesk,
        **parts: Any,
    ) -> None:
        super().__init__(**parts)
        self._reception = reception
        self._idempotency = idempotency
        self._desk = desk

    async def _serve(self, exchange: Exchange) -> None:
        caller = self._reception.authenticate(exchange.header("authorization"))
        bind_request(tenant_id=caller.tenant_id)
        body = await exchange.body()
        if exchange.header(HEADER) is None:
            await self._embed(exchange, caller, body)
            return
        await self._idempotency.serve(
            exchange, caller, body, lambda kept, ticket: self._embed(kept, caller, body, ticket)
        )

    async def _embed(
        self, exchange: Exchange, caller: Caller, body: bytes, ticket: GuardTicket | None = None
    ) -> None:
        ticket = ticket or self._reception.take_ticket(caller)
        try:
            order, encodes = embed_order(parse_object(body))
        except BaseException:
            ticket.give_back()
            raise
        made = await unless_left(
            exchange,
            self._desk.embed(caller, order, ticket=ticket),
        )
        assert made.last is not None
        live = made.last.live
        statuses, now_us = made.last.limits, self._clock.now_us()
        answer = {
            "object": "list",
            "data": [
                {
                    "object": "embedding",
                    "index": at,
                    "embedding": _base64(vector) if encodes else list(vector),
                }
                for at, vector in enumerate(made.vectors)
            ],
            "model": live.prepared.subject.model,
            "usage": {
                "prompt_tokens": made.usage.prompt_tokens,
                "total_tokens": made.usage.prompt_tokens,
            },
        }
        headers = [
            *request_headers(live),
            *of_statuses(statuses, degraded=made.last.degraded, now_us=now_us),
        ]
        await exchange.reply_json(answer, headers)


def embed_order(body: dict[str, Any]) -> tuple[EmbedOrder, bool]:
    """The order of a body, and whether vectors are wanted in base64. Raises WeirError."""
    fields = Fields(body)
    inputs, names = _inputs(fields)
    own = own_fields(fields)
    order = EmbedOrder(
        model=model_name(fields),
        inputs=inputs,
        names=names,
        **{name: own[name] for name in _OWN},
    )
    encodes = fields.choice("encoding_format", _FORMATS, False)
    if fields.raw("dimensions") is not None:
        raise fields.unsupported("dimensions", "embeddings are as wide as the model")
    for name in own.keys() - set(_OWN):
        if own[name]:
            raise fields.unsupported(name, "it goes with what is generated")
    fields.text("user")
    fields.refuse_unknown()
    return order, encodes


def _inputs(fields: Fields) -> tuple[list[str | tuple[int, ...]], list[str]]:
    value = fields.raw("input")
    if isinstance(value, str):
        return [value], ["input"]
    if not isinstance(value, list):
        raise fields.invalid("input", Shape(value), "a string, token ids, or a list of either")
    if value and is_id(value[0]):
        return [_ids("input", value)], ["input"]
    check_input_count("input", len(value))
    names = [f"input[{at}]" for at in range(len(value))]
    return [_one(name, entry) for name, entry in zip(names, value, strict=True)], names


def _one(name: str, value: Any) -> str | tuple[int, ...]:
    return value if isinstance(value, str) else _ids(name, value)


def _ids(name: str, value: Any) -> tuple[int, ...]:
    if not isinstance(value, list) or not value:
        raise InvalidField(name, Shape(value), "a string, or an array of token ids, not empty")
    check_token_count(name, value)
    if not all(map(is_id, value)):
        raise InvalidField(name, Shape(value), "an array of token ids")
    return tuple(value)


def _base64(vector: Sequence[float]) -> str:
    """Little-endian 32-bit floats, as OpenAI's SDKs read them."""
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
