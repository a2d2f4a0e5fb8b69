"""`POST /v1/chat/completions` and `/v1/completions`."""

import asyncio
from collections.abc import Callable
from typing import Any

from starlette.types import Receive, Scope, Send

from weir_core.clock import Clock
from weir_core.errors import Reason, WeirError
from weir_core.errors.openai import header_safe
from weir_core.ids import new_request_id
from weir_core.telemetry.context import bind_request
from weir_core.telemetry.logs import get_logger
from weir_gateway.flow.admission import Admission
from weir_gateway.flow.delivery import Piece, Taken
from weir_gateway.flow.ending import Ending, client_gone
from weir_gateway.flow.live_request import LiveRequest
from weir_gateway.flow.reception import Reception
from weir_gateway.intake.generation_request import GenerationRequest
from weir_gateway.openai.answer_format import PING, AnswerFormat
from weir_gateway.openai.exchange import ClientLeft, Exchange, Headers
from weir_gateway.openai.json_body import parse_object
from weir_gateway.openai.rate_headers import of_statuses
from weir_gateway.openai.requests import OpenAiRequest

_log = get_logger(__name__)

_STREAM_HEADERS = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
)


class GenerationEndpoint:
    """An ASGI endpoint that generates.

    Args:
        reception: takes requests in.
        clock: for ids and reset times.
        to_request: reads the body's object.
        chat: answers as chat completion, else as text completion.
        max_body: bytes.
        ping_s: silence after which a stream gets a comment, and the longest wait for the first
            token before headers go out.
        stall_s: a client that reads nothing for so long is given up.
    """

    def __init__(
        self,
        *,
        reception: Reception,
        clock: Clock,
        to_request: Callable[[dict[str, Any]], OpenAiRequest],
        chat: bool,
        max_body: int,
        ping_s: float,
        stall_s: float,
    ) -> None:
        self._reception = reception
        self._clock = clock
        self._to_request = to_request
        self._chat = chat
        self._max_body = max_body
        self._ping_s = ping_s
        self._stall_s = stall_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serves one request."""
        exchange = Exchange(scope, receive, send, max_body=self._max_body, stall_s=self._stall_s)
        try:
            await self._serve(exchange)
        except ClientLeft:
            return
        except WeirError as error:
            await self._refuse(exchange, error)
        except Exception as error:
            error_id = new_request_id(self._clock)
            _log.error("http_request_failed", error_id=error_id, exc_info=error)
            await self._refuse(
                exchange, WeirError(Reason.INTERNAL, f"internal error, id {error_id}")
            )

    async def _serve(self, exchange: Exchange) -> None:
        caller = self._reception.authenticate(exchange.header("authorization"))
        bind_request(tenant_id=caller.tenant_id)
        if exchange.header("idempotency-key") is not None:
            raise WeirError(
                Reason.UNSUPPORTED_FIELD,
                "Idempotency-Key is set, but idempotency keys are not built yet; leave it out",
                field="Idempotency-Key",
            )
        body = await exchange.body()
        include_usage = False

        def parse() -> GenerationRequest:
            nonlocal include_usage
            parsed = self._to_request(parse_object(body))
            include_usage = parsed.include_usage
            return parsed.request

        admission = await self._reception.admit(
            caller, parse, size=len(body), traceparent=exchange.header("traceparent") or ""
        )
        live = admission.live
        form = AnswerFormat(live, chat=self._chat, include_usage=include_usage)
        await self._answer(exchange, admission, form)

    async def _answer(self, exchange: Exchange, admission: Admission, form: AnswerFormat) -> None:
        live = admission.live
        watch = asyncio.create_task(_stop_when_left(exchange, live))
        try:
            headers = self._headers(admission)
            if live.delivery.whole:
                await self._reply_whole(exchange, live, form, headers)
            else:
                await self._stream(exchange, live, form, headers)
        finally:
            watch.cancel()
            if not live.ended.done():
                live.stop(client_gone())

    async def _reply_whole(
        self, exchange: Exchange, live: LiveRequest, form: AnswerFormat, headers: Headers
    ) -> None:
        taken: Taken[Ending] = Taken()
        while taken.ending is None:
            taken = await live.delivery.take(self._ping_s)
        ending = taken.ending
        if ending.error is not None and not (ending.cut_by_quota and taken.pieces):
            await exchange.reply_error(ending.error, live.id, now_us=self._clock.now_us())
            return
        await exchange.reply(200, form.whole(taken.pieces, ending), headers)

    async def _stream(
        self, exchange: Exchange, live: LiveRequest, form: AnswerFormat, headers: Headers
    ) -> None:
        taken = await self._news(live)
        error = taken.ending.error if taken.ending is not None else None
        if error is not None and not taken.pieces:
            await exchange.reply_error(error, live.id, now_us=self._clock.now_us())
            return
        await exchange.start(200, [*_STREAM_HEADERS, *headers])
        events = form.opening()
        while True:
            events += form.pieces(taken.pieces)
            if taken.ending is not None:
                await exchange.write(events + form.closing(taken.ending), more=False)
                return
            await exchange.write(events or PING)
            events = b""
            taken = await self._news(live)

    async def _news(self, live: LiveRequest) -> Taken[Ending]:
        """Text or the end; empty, for a ping, when neither came in time."""
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + self._ping_s
        silent: list[Piece] = []
        while (left_s := ends_at - loop.time()) > 0:
            taken = await live.delivery.take(left_s)
            taken.pieces = silent + taken.pieces
            if taken.ending is not None or any(piece.text for piece in taken.pieces):
                return taken
            if live.prepared.tells_logprobs:
                silent = taken.pieces
        return Taken(pieces=silent)

    def _headers(self, admission: Admission) -> Headers:
        live = admission.live
        return [
            (b"x-request-id", live.id.encode()),
            (b"x-weir-model", header_safe(live.prepared.subject.model).encode()),
            (b"x-weir-max-new-tokens", str(live.prepared.max_new_tokens).encode()),
            *of_statuses(
                admission.limits, degraded=admission.degraded, now_us=self._clock.now_us()
            ),
        ]

    async def _refuse(self, exchange: Exchange, error: WeirError) -> None:
        if not exchange.started:
            request_id = new_request_id(self._clock)
            await exchange.reply_error(error, request_id, now_us=self._clock.now_us())


async def _stop_when_left(exchange: Exchange, live: LiveRequest) -> None:
    await exchange.until_left()
    live.stop(client_gone())
