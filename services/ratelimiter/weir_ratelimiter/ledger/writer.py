"""Writes rows: each once, with the sums of its hour, in one transaction."""

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec
from sqlalchemy import select, tuple_, update

from weir_ratelimiter.domain.change import LedgerEvent
from weir_ratelimiter.ledger.database import Database, Turn
from weir_ratelimiter.ledger.erased import erased_row
from weir_ratelimiter.ledger.pseudonyms import Pseudonyms
from weir_ratelimiter.ledger.rejects import Rejects
from weir_ratelimiter.ledger.repeats import Contradiction, contradictions
from weir_ratelimiter.ledger.rollup import HourSums
from weir_ratelimiter.ledger.row import LedgerRow, row_of
from weir_ratelimiter.ledger.row_ids import RowIds
from weir_ratelimiter.ledger.tables import UNIQUE_ROW, erasures, head, rows


class Written(msgspec.Struct, frozen=True):
    """What became of a batch of events.

    Attributes:
        rows: that were written.
        repeats: number of events whose rows were there.
        contradictions: those of the repeats that say something else than their rows; they
            were set aside.
    """

    rows: Sequence[LedgerRow]
    repeats: int
    contradictions: Sequence[Contradiction]


class LedgerWriter:
    """Writes to one ledger.

    Writers of all processes take turns, and ids are given within the turn: a row that becomes
    visible later has a larger id, so that a reader that goes by id misses none.
    """

    def __init__(
        self,
        database: Database,
        pseudonyms: Pseudonyms,
        rejects: Rejects,
        now_ms: Callable[[], int],
    ) -> None:
        self._database = database
        self._pseudonyms = pseudonyms
        self._rejects = rejects
        self._now_ms = now_ms

    async def write(self, events: Sequence[LedgerEvent]) -> Written:
        """Write the events that the ledger does not have.

        Raises:
            one of `FAILURES`: nothing was written.
            OverflowError: a number does not fit 64 bits; nothing was written.
        """
        async with self._database.writing() as turn:
            now_ms = self._now_ms()
            ids = RowIds(turn.last_id, now_ms)
            given = [row_of(event, ids.next()) for event in events]
            erased = await self._erased_repeats(turn, given)
            fresh = [row for row in given if row.id not in erased]
            written = await insert_rows(self._database, turn, fresh)
            if written:
                await self._note(turn, max(row.id for row in written), now_ms)
            new = {row.id for row in written}
            repeats = [
                (erased.get(row.id, row), event)
                for row, event in zip(given, events, strict=True)
                if row.id not in new
            ]
            others = await self._set_aside_others(turn, repeats)
        return Written(written, len(repeats), others)

    async def _set_aside_others(
        self, turn: Turn, repeats: Sequence[tuple[LedgerRow, LedgerEvent]]
    ) -> Sequence[Contradiction]:
        """Put repeats that are none to the rejects."""
        events = {row.id: event for row, event in repeats}
        others = await contradictions(turn, [row for row, _ in repeats])
        for other in others:
            await self._rejects.put(turn, events[other.row.id], other.cause)
        return others

    async def _erased_repeats(
        self, turn: Turn, given: Sequence[LedgerRow]
    ) -> Mapping[str, LedgerRow]:
        """Repeats of rows that bear pseudonyms by now, with those, by id."""
        names = {row.tenant_id for row in given}
        tenants = {name: self._pseudonyms.tenant(name) for name in names}
        known = select(erasures.c.pseudonym).where(erasures.c.pseudonym.in_(tenants.values()))
        erased = set((await turn.connection.execute(known)).scalars())
        if not erased:
            return {}
        suspects = [row for row in given if tenants[row.tenant_id] in erased]
        bare = [erased_row(row, self._pseudonyms) for row in suspects]
        there = await existing_keys(turn, map(_key, bare))
        return {row.id: row for row in bare if _key(row) in there}

    async def _note(self, turn: Turn, last_id: str, now_ms: int) -> None:
        await turn.connection.execute(update(head).values(last_id=last_id, written_ms=now_ms))


async def insert_rows(
    database: Database, turn: Turn, given: Sequence[LedgerRow]
) -> Sequence[LedgerRow]:
    """Insert the rows that are not there, and add them to the sums; returns them.

    Nobody else inserts in this turn, so that an id is there afterwards if it was inserted or
    was there before. Databases can tell by RETURNING too, at half the speed.
    """
    if not given:
        return []
    ids = [row.id for row in given]
    before = await _ids_between(turn, ids) if min(ids) <= turn.last_id else set()
    values = [msgspec.structs.asdict(row) for row in given]
    await turn.connection.execute(database.insert(rows).on_conflict_do_nothing(), values)
    after = await _ids_between(turn, ids)
    written = [row for row in given if row.id in after and row.id not in before]
    sums = HourSums()
    sums.add(written)
    await sums.write(database, turn)
    return written


async def _ids_between(turn: Turn, ids: Sequence[str]) -> set[str]:
    """Ids of rows from the smallest to the largest of `ids`."""
    found = select(rows.c.id).where(rows.c.id.between(min(ids), max(ids)))
    return set((await turn.connection.execute(found)).scalars())


async def existing_keys(
    turn: Turn, keys: Iterable[tuple[str, str, int]]
) -> set[tuple[str, str, int]]:
    """Those of `keys` (values of `UNIQUE_ROW`) that rows have."""
    columns = [rows.c[name] for name in UNIQUE_ROW]
    found = select(*columns).where(tuple_(*columns).in_(list(keys)))
    return {(row[0], row[1], row[2]) for row in await turn.connection.execute(found)}


def _key(row: LedgerRow) -> tuple[str, str, int]:
    return (row.tenant_id, row.reservation_id, row.kind)
