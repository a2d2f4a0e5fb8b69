"""Kept events of a background response, told as they are written, by whichever gateway."""

import asyncio
from collections.abc import Iterable

from weir_core.errors import WeirError
from weir_core.errors.openai import to_body
from weir_core.tasks import end_task
from weir_gateway.caller.caller import Caller
from weir_gateway.flow.reception import Reception
from weir_gateway.holdings.open_streams import OpenStreams
from weir_gateway.openai.answer_format import PING
from weir_gateway.openai.exchange import ClientLeft, Exchange
from weir_gateway.openai.generation_endpoint import STREAM_HEADERS
from weir_gateway.responses.answer import encoded
from weir_gateway.responses.response_json import ENDED
from weir_gateway.responses.store import ResponseStore

_PAGE = 500
_LOOK_S = 0.1
_MOST_LOOK_S = 0.5
_LAST = frozenset(f"response.{status}" for status in ENDED)


class EventStream:
    """Sends the events of one response.

    Args:
        store: of responses.
        reception: knows who may still read.
        ping_s: silence after which a comment is sent.
        streams: has places for streams.
    """

    def __init__(
        self, store: ResponseStore, reception: Reception, *, ping_s: float, streams: OpenStreams
    ) -> None:
        self.place = streams.place
        self._store = store
        self._reception = reception
        self._ping_s = ping_s

    async def send(
        self,
        exchange: Exchange,
        caller: Caller,
        response_id: str,
        after: int,
        headers: Iterable[tuple[bytes, bytes]],
    ) -> None:
        """Sends events with a greater number than `after`, until the last was sent.

        The caller has entered `place`.

        An `error` event tells that it was deleted, that the state cannot be read, or why the
        caller is no longer welcome.
        Raises ClientLeft.
        """
        await exchange.start(200, [*STREAM_HEADERS, *headers])
        watch = asyncio.create_task(exchange.until_left())
        try:
            try:
                await self._send(exchange, caller, response_id, after, watch)
                last = b""
            except WeirError as error:
                last = _error_event(error)
            await exchange.write(last, more=False)
        finally:
            await end_task(watch)

    async def _send(
        self,
        exchange: Exchange,
        caller: Caller,
        response_id: str,
        after: int,
        watch: asyncio.Task[None],
    ) -> None:
        loop, tenant_id = asyncio.get_running_loop(), caller.tenant_id
        spoke_at, looked_at, pause_s = loop.time(), 0.0, _LOOK_S
        while not watch.done():
            self._reception.standing(tenant_id, caller.key_id)
            events = await self._store.events(tenant_id, response_id, after=after, limit=_PAGE)
            if events:
                await exchange.write(b"".join(map(encoded, events)))
                spoke_at, after = loop.time(), events[-1]["sequence_number"]
                pause_s = _LOOK_S
                if events[-1]["type"] in _LAST:
                    return
                continue
            if loop.time() - looked_at >= self._ping_s:
                # Nothing more comes of one that has ended or is gone.
                looked_at = loop.time()
                stored = await self._store.get(tenant_id, response_id, "response_id")
                if stored.response["status"] in ENDED and not await self._store.events(
                    tenant_id, response_id, after=after, limit=1
                ):
                    return
            if loop.time() - spoke_at >= self._ping_s:
                await exchange.write(PING)
                spoke_at = loop.time()
            await asyncio.wait({watch}, timeout=pause_s)
            pause_s = min(_MOST_LOOK_S, 1.25 * pause_s)
        raise ClientLeft


def _error_event(error: WeirError) -> bytes:
    told = to_body(error)["error"]
    parts = {name: told[name] for name in ("code", "message", "param")}
    return encoded({"type": "error", **parts, "sequence_number": 0})
