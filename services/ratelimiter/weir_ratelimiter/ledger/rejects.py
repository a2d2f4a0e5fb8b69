"""Events that cannot be written: set aside, so that they hold up no other."""

import hashlib
from collections.abc import Callable, Sequence

import msgspec
from sqlalchemy import delete, select
from sqlalchemy.exc import DataError, IntegrityError

from weir_ratelimiter.domain.change import LedgerEvent
from weir_ratelimiter.ledger.database import Database, Turn
from weir_ratelimiter.ledger.tables import rejects

POISON = (DataError, IntegrityError, OverflowError, ValueError)
"""The database is well; the event is not."""

_events = msgspec.msgpack.Decoder(LedgerEvent)


class Rejects:
    """The table of what was set aside; a repeat of an event is kept once."""

    def __init__(self, database: Database, now_ms: Callable[[], int]) -> None:
        self._database = database
        self._now_ms = now_ms

    async def add(self, event: LedgerEvent, cause: str) -> None:
        """Set an event aside as it came.

        Raises:
            one of `FAILURES`.
        """
        async with self._database.writing() as turn:
            await self.put(turn, event, cause)

    async def some(self, after: str, most: int) -> Sequence[tuple[str, LedgerEvent]]:
        """Events by digest, those that come after the digest `after`, at most `most`."""
        chosen = (
            select(rejects.c.digest, rejects.c.event)
            .where(rejects.c.digest > after)
            .order_by(rejects.c.digest)
            .limit(most)
        )
        async with self._database.reading() as connection:
            found = list(await connection.execute(chosen))
        return [(digest, _events.decode(encoded)) for digest, encoded in found]

    async def remove(self, digest: str) -> None:
        """Keep an event no longer."""
        async with self._database.writing() as turn:
            await turn.connection.execute(delete(rejects).where(rejects.c.digest == digest))

    async def put(self, turn: Turn, event: LedgerEvent, cause: str) -> None:
        """As `add`, in a turn that has begun."""
        encoded = msgspec.msgpack.encode(event)
        values = {
            "digest": hashlib.blake2b(encoded, digest_size=16).hexdigest(),
            "tenant_id": event.subject.tenant_id.replace("\0", ""),
            "rejected_ms": self._now_ms(),
            "cause": cause,
            "event": encoded,
        }
        statement = self._database.insert(rejects).on_conflict_do_nothing()
        await turn.connection.execute(statement, [values])
