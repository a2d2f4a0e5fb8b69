"""Which gateways there are: rows of the state database that they share."""

from sqlalchemy import delete, select

from weir_core.clock import Clock
from weir_core.repeating import Repeating
from weir_gateway.insight.tables import gateways
from weir_gateway.state.state import State

_BEAT_S = 10.0
_ALIVE_MS, _FORGOTTEN_MS = 35_000, 3_600_000


class GatewayRegister:
    """Tells the others of this gateway, and this one of the others.

    Args:
        state: shared by all.
        clock: wall time; those of gateways may differ by some seconds.
        gateway_id: of this process.

    Attributes:
        others: addresses of those that live, by id, as of the last beat.
    """

    def __init__(self, state: State, clock: Clock, gateway_id: str) -> None:
        self._state = state
        self._clock = clock
        self._gateway_id = gateway_id
        self._address = ""
        self.others: dict[str, str] = {}
        self._beats = Repeating("gateway-register", self.beat, _BEAT_S)

    def start(self, address: str) -> None:
        """Begins; `address` is `host:port` for the others, empty for none."""
        self._address = address
        if self._state.on:
            self._beats.start()

    async def stop(self) -> None:
        """Ends it, and takes the own row away if the database is there."""
        await self._beats.stop()
        if not self._state.on or not self._address:
            return
        async with self._state.writing(1.0) as connection:
            await connection.execute(delete(gateways).where(gateways.c.id == self._gateway_id))

    async def beat(self) -> None:
        """Gives a sign of life and looks for those of the others. Raises WeirError."""
        now_ms = self._clock.now_ms()
        async with self._state.writing() as connection:
            if self._address:
                row = {"id": self._gateway_id, "address": self._address, "seen_ms": now_ms}
                put = self._state.insert(gateways).values(row)
                await connection.execute(put.on_conflict_do_update(index_elements=["id"], set_=row))
            old = gateways.c.seen_ms < now_ms - _FORGOTTEN_MS
            await connection.execute(delete(gateways).where(old))
            alive = select(gateways).where(gateways.c.seen_ms >= now_ms - _ALIVE_MS)
            rows = (await connection.execute(alive)).all()
        self.others = {row.id: row.address for row in rows if row.id != self._gateway_id}
