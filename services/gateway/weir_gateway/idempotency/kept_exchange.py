"""An HTTP exchange whose answer is kept, and that goes on when its client leaves."""

import asyncio

import orjson

from weir_gateway.flow.live_request import LiveRequest
from weir_gateway.idempotency.claim_store import Claim
from weir_gateway.idempotency.idempotency import Idempotency, has_run
from weir_gateway.idempotency.kept_answer import KeptAnswer, Transcript
from weir_gateway.openai.exchange import ClientLeft, Exchange, Headers

# What says how things stood when the answer was made, or how these bytes travel.
_PASSING = (b"content-length", b"connection", b"retry-after", b"x-ratelimit-", b"anthropic-")
_PART = 64_000
_REPLAYED = (b"idempotent-replayed", b"true")
_NO_RETRY = (b"x-should-retry", b"false")


class KeptExchange(Exchange):
    """Writes to a client as `Exchange` does, and keeps what it writes.

    Args:
        exchange: whose body has been read.
        claim: of its key.
        idempotency: keeps the answer before the last bytes of it are sent.
    """

    def __init__(self, exchange: Exchange, claim: Claim, idempotency: Idempotency) -> None:
        self._continue(exchange)
        self._claim = claim
        self._idempotency = idempotency
        self._transcript = Transcript(idempotency.most_bytes)
        self._left = False
        self._live: LiveRequest | None = None
        self._status = 0
        self._head = b""
        self._answered = False

    def runs(self, live: LiveRequest) -> None:
        """The request was admitted."""
        self._live = live

    async def until_left(self) -> None:
        """Returns when the client leaves and that ends the request; else never."""
        await super().until_left()
        if self._idempotency.runs_on:
            self._left = True
            await asyncio.Future()

    async def start(self, status: int, headers: Headers) -> None:
        """Sends status and headers."""
        headers = list(headers)
        self._status = status
        self._head = orjson.dumps(
            [
                (name.decode("latin-1"), value.decode("latin-1"))
                for name, value in headers
                if not name.startswith(_PASSING)
            ]
        )
        await super().start(status, headers)

    async def write(self, data: bytes, *, more: bool = True) -> None:
        """Sends a part of the body; all of it is kept before the last part is sent.

        Raises:
            ClientLeft: it reads nothing any more, and that ends the request.
        """
        self._transcript.add(data)
        if not more:
            self._answered = True
            await self.close()
        await self._pass_on(data, more=more)

    async def keep_alive(self, ping: bytes) -> None:
        """Sends what is no part of the answer."""
        await self._pass_on(ping, more=True)

    async def close(self) -> None:
        """Keeps what was written, or frees the key. Idempotent."""
        transcript = self._transcript
        answer = None
        if transcript.whole:
            answer = KeptAnswer(self._status, self._head, transcript.body())
        # Taken to be answered later: nothing ran, and its job must not be made twice.
        later = self._status == 202 or (self._live is None and self._status < 400)
        ran = self._live is not None and has_run(self._live)
        ran = ran or (self._answered and later)
        await self._idempotency.close(self._claim, answer, ran=ran)

    async def _pass_on(self, data: bytes, *, more: bool) -> None:
        if self._left:
            return
        try:
            await super().write(data, more=more)
        except ClientLeft:
            if not self._idempotency.runs_on:
                raise
            self._left = True


async def replay(exchange: Exchange, answer: KeptAnswer) -> None:
    """Sends a kept answer again, byte by byte the same but for headers of the moment."""
    stored = [
        (name.encode("latin-1"), value.encode("latin-1"))
        for name, value in orjson.loads(answer.head)
    ]
    # The same key has the same answer for a day.
    headers = [pair for pair in stored if pair[0] != _NO_RETRY[0]] + [_REPLAYED]
    if answer.status >= 400:
        headers.append(_NO_RETRY)
    length = (b"content-length", str(len(answer.body)).encode())
    await exchange.start(answer.status, [*headers, length])
    for at in range(0, max(1, len(answer.body)), _PART):
        more = at + _PART < len(answer.body)
        await exchange.write(answer.body[at : at + _PART], more=more)
