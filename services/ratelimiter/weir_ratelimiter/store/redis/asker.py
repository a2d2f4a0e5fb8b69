"""Asks the server, and asks again where the answer was that something else must be asked."""

import math
from collections.abc import Callable, Sequence

import msgspec

from weir_core.errors import Reason, WeirError
from weir_ratelimiter.record import Record
from weir_ratelimiter.store.redis import stored
from weir_ratelimiter.store.redis.answers import reply_from
from weir_ratelimiter.store.redis.call import Call
from weir_ratelimiter.store.redis.fields import Fields
from weir_ratelimiter.store.redis.moment import Moment, ServerTime
from weir_ratelimiter.store.redis.server import RedisServer, Reply

_TRIES = 3


class Asker:
    """Runs calls. Every method raises WeirError(LIMITER_UNAVAILABLE)."""

    def __init__(self, server: RedisServer, server_time: ServerTime) -> None:
        self._server = server
        self._time = server_time

    async def of_record(
        self, record: Record, call: Callable[[Record, Fields, Moment], Call]
    ) -> tuple[Reply, Fields]:
        """Answer to a call about a reservation, and the fields that it is about.

        A record may name other limits than its reservation, if that was rebuilt from another
        one; then the call is made again for the limits that it has.
        """
        for _ in range(_TRIES):
            fields = Fields.of(record.subject.tenant_id, record.entries)
            reply = await self.run(call(record, fields, self._time.moment()))
            if reply[0] != b"other":
                return reply, fields
            entries = stored.reservation_from(reply[2]).entries
            record = msgspec.structs.replace(record, entries=entries)
        raise self._unsettled("the reservation changes its limits all the time")

    async def at_this_moment(
        self,
        asked: Callable[[Moment], Fields],
        call: Callable[[Fields, Moment], Call],
    ) -> tuple[Reply, Fields]:
        """Answer to a call that is for this moment alone, and its fields.

        The moment is over when one of its windows ends, or when nobody waits for the answer.
        """
        patience_ms = math.ceil(self._server.timeout_s * 1_000)
        for _ in range(_TRIES):
            moment = self._time.moment(patience_ms)
            fields = asked(moment)
            reply = await self.run(call(fields, moment))
            if reply[0] != b"moment":
                return reply, fields
        raise self._unsettled("its answers come too late, or its clock does not keep step")

    async def run(self, call: Call) -> Reply:
        """Answer to a call; its second part is the server's time.

        A server that turns out to need what was left out is called again, with everything.
        """
        reply = await self._reply(call, call.in_brief)
        if reply[0] == b"brief":
            reply = await self._reply(call, call.in_full)
        self._time.heard(reply[1])
        return reply

    async def _reply(self, call: Call, arguments: Sequence[bytes]) -> Reply:
        told = await self._server.run(call.function, call.keys, arguments)
        return reply_from(call.function, told) if isinstance(told, bytes) else told

    def _unsettled(self, why: str) -> WeirError:
        return WeirError(
            Reason.LIMITER_UNAVAILABLE,
            f"Redis at {self._server.address} cannot decide: {why}",
            retry_after_s=1.0,
        )
