"""Endpoints that generate: `POST /v1/chat/completions` and its kin."""

import asyncio
from collections.abc import Sequence

from weir_core.clock import Clock
from weir_core.errors import WeirError
from weir_core.telemetry.context import bind_request
from weir_gateway.caller.caller import Caller
from weir_gateway.caller.request_guard import GuardTicket
from weir_gateway.degradation.rules import may_degrade
from weir_gateway.flow.admission import Admission
from weir_gateway.flow.delivery import Piece, Taken
from weir_gateway.flow.ending import Ending, client_gone
from weir_gateway.flow.live_request import LiveRequest
from weir_gateway.flow.reception import Reception
from weir_gateway.idempotency.http_door import HEADER, HttpIdempotency
from weir_gateway.intake.generation_request import GenerationRequest
from weir_gateway.openai.deferral import Deferral
from weir_gateway.openai.dialect import AnswerForm, Dialect
from weir_gateway.openai.endpoint import Endpoint
from weir_gateway.openai.exchange import Exchange, Headers
from weir_gateway.openai.json_body import parse_object
from weir_gateway.openai.refusal import Refusal
from weir_gateway.openai.requests import HttpRequest
from weir_gateway.openai.unless_left import unless_left

STREAM_HEADERS = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
)


class GenerationEndpoint(Endpoint):
    """An ASGI endpoint that generates.

    Args:
        reception: takes requests in.
        idempotency: runs those with a key once.
        dialect: how requests are read and answers written.
        ping_s: silence after which a stream gets a comment, and the longest wait for the first
            token before headers go out.
        deferral: turns calls into jobs; None: none.
        clock, max_body, stall_s: see `Endpoint`.
    """

    def __init__(
        self,
        *,
        reception: Reception,
        idempotency: HttpIdempotency,
        dialect: Dialect,
        clock: Clock,
        max_body: int,
        ping_s: float,
        stall_s: float,
        deferral: Deferral | None = None,
    ) -> None:
        super().__init__(clock=clock, max_body=max_body, stall_s=stall_s)
        self._reception = reception
        self._idempotency = idempotency
        self._dialect = dialect
        self._ping_s = ping_s
        self._deferral = deferral

    async def _serve(self, exchange: Exchange) -> None:
        caller = self._reception.authenticate(self._dialect.authorization(exchange))
        bind_request(tenant_id=caller.tenant_id)
        if self._deferral is not None and self._deferral.asked(exchange):
            self._reception.check_rate(caller)
            await self._deferral.submit(exchange, caller, await exchange.body())
            return
        body = await exchange.body()
        if exchange.header(HEADER) is None:
            await self._generate(exchange, caller, body)
            return
        await self._idempotency.serve(
            exchange, caller, body, lambda kept, ticket: self._generate(kept, caller, body, ticket)
        )

    async def _generate(
        self, exchange: Exchange, caller: Caller, body: bytes, ticket: GuardTicket | None = None
    ) -> None:
        """Answers a body of a known caller."""
        parsed: list[HttpRequest] = []

        def parse() -> GenerationRequest:
            parsed.append(self._dialect.parse(parse_object(body)))
            return parsed[0].request

        async def complete(_: GenerationRequest) -> GenerationRequest:
            parsed[0] = await self._completed(caller, parsed[0])
            return parsed[0].request

        admitting = self._reception.admit(
            caller,
            parse,
            size=len(body),
            ticket=ticket,
            complete=complete,
        )
        if may_degrade(caller.policy):
            # It may wait for a worker meanwhile.
            admission = await unless_left(exchange, admitting)
        else:
            admission = await admitting
        exchange.runs(admission.live)
        deferral = self._deferral
        if (
            deferral is not None
            and deferral.may_defer(admission.live)
            and await _outwaited(deferral, exchange, admission)
        ):
            await deferral.submit(exchange, caller, body)
            return
        form = self._dialect.form(admission.live, parsed[0])
        await self._answer(exchange, admission, form)

    async def _completed(self, caller: Caller, request: HttpRequest) -> HttpRequest:
        """The request with what the state adds to it. Raises WeirError."""
        return request

    async def _keep(self, form: AnswerForm, pieces: Sequence[Piece], ending: Ending) -> None:
        """Keeps an answer before its end is told; `pieces` are those that `form` has not had."""

    def _refusal(self, error: WeirError, request_id: str) -> Refusal:
        return self._dialect.refusal(error, request_id, self._clock.now_us())

    async def _answer(self, exchange: Exchange, admission: Admission, form: AnswerForm) -> None:
        live = admission.live
        watch = asyncio.create_task(_stop_when_left(exchange, live))
        try:
            headers = self._dialect.headers(admission, self._clock.now_us())
            if live.delivery.whole:
                await self._reply_whole(exchange, live, form, headers)
            else:
                await self._stream(exchange, live, form, headers)
        finally:
            watch.cancel()
            if not live.ended.done():
                live.stop(client_gone())

    async def _reply_whole(
        self, exchange: Exchange, live: LiveRequest, form: AnswerForm, headers: Headers
    ) -> None:
        taken: Taken[Ending] = Taken()
        while taken.ending is None:
            taken = await live.delivery.take(self._ping_s)
        ending = taken.ending
        if ending.error is not None and not (ending.cut_by_quota and taken.pieces):
            await exchange.reply_refusal(self._refusal(ending.error, live.id))
            return
        await self._keep(form, taken.pieces, ending)
        await exchange.reply(200, form.whole(taken.pieces, ending), headers)

    async def _stream(
        self, exchange: Exchange, live: LiveRequest, form: AnswerForm, headers: Headers
    ) -> None:
        taken = await self._news(live)
        error = taken.ending.error if taken.ending is not None else None
        if error is not None and not taken.pieces:
            await exchange.reply_refusal(self._refusal(error, live.id))
            return
        await exchange.start(200, [*STREAM_HEADERS, *headers])
        events = form.opening()
        while True:
            events += form.pieces(taken.pieces)
            if taken.ending is not None:
                await self._keep(form, (), taken.ending)
                await exchange.write(events + form.closing(taken.ending), more=False)
                return
            if events:
                await exchange.write(events)
            else:
                await exchange.keep_alive(self._dialect.ping)
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


async def _outwaited(deferral: Deferral, exchange: Exchange, admission: Admission) -> bool:
    """See `Deferral.outwaited`. A client that leaves stops its request."""
    live = admission.live
    try:
        return await unless_left(exchange, deferral.outwaited(live))
    except BaseException:
        live.stop(client_gone())
        raise


async def _stop_when_left(exchange: Exchange, live: LiveRequest) -> None:
    await exchange.until_left()
    live.stop(client_gone())
