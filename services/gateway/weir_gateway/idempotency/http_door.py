"""HTTP requests with an `Idempotency-Key`."""

import asyncio
from collections.abc import Awaitable, Callable

from weir_gateway.caller.caller import Caller
from weir_gateway.caller.request_guard import GuardTicket
from weir_gateway.flow.reception import Reception
from weir_gateway.idempotency.idempotency import Idempotency
from weir_gateway.idempotency.kept_answer import KeptAnswer
from weir_gateway.idempotency.kept_exchange import KeptExchange, replay
from weir_gateway.idempotency.scoped_key import ScopedKey, canonical_json, scoped_key
from weir_gateway.openai.exchange import Exchange
from weir_gateway.openai.json_body import parse_object

HEADER = "idempotency-key"
"""Its name in lower case."""

_FIELD = "Idempotency-Key"
_MOST_ON_LOOP = 50_000


class HttpIdempotency:
    """Runs what a door does with a request once for each key.

    Args:
        idempotency: the claims.
        reception: whose request rate every call counts against, replays included.
    """

    def __init__(self, idempotency: Idempotency, reception: Reception) -> None:
        self._idempotency = idempotency
        self._reception = reception

    async def serve(
        self,
        exchange: Exchange,
        caller: Caller,
        body: bytes,
        run: Callable[[Exchange, GuardTicket], Awaitable[None]],
    ) -> None:
        """Answers a request that has a key.

        Args:
            exchange: whose body has been read.
            caller: who asks.
            body: what was read.
            run: writes the answer to the exchange it is given; it passes the ticket on to
                `Reception.admit`, and what was admitted to `Exchange.runs`.

        Raises:
            WeirError: of the key, or whatever `run` raises; the key is free then.
        """
        text = exchange.header(HEADER) or ""

        def parse() -> ScopedKey:
            payload = canonical_json(parse_object(body))
            return scoped_key(caller, exchange.path, text, payload, field=_FIELD)

        key = await asyncio.to_thread(parse) if len(body) > _MOST_ON_LOOP else parse()
        ticket = self._reception.take_ticket(caller)
        try:
            found = await self._idempotency.claim(key)
        except BaseException:
            ticket.keep()
            raise
        if isinstance(found, KeptAnswer):
            ticket.keep()
            await replay(exchange, found)
            return
        kept = KeptExchange(exchange, found, self._idempotency)
        try:
            await run(kept, ticket)
        finally:
            exchange.started = kept.started
            await kept.close()
