"""One ledger: its database and everything that works on it."""

import asyncio
from collections.abc import Callable

import msgspec
from prometheus_client import CollectorRegistry
from sqlalchemy import select

from weir_core.errors import WeirError
from weir_core.errors.startup import StartupError
from weir_core.telemetry.logs import get_logger
from weir_ratelimiter.ledger.budgets import LedgerBudgets
from weir_ratelimiter.ledger.database import FAILURES, Database, cause_of
from weir_ratelimiter.ledger.erasure import Eraser
from weir_ratelimiter.ledger.metrics import LedgerMetrics
from weir_ratelimiter.ledger.pseudonyms import Pseudonyms
from weir_ratelimiter.ledger.pump import LedgerPump, Outbox
from weir_ratelimiter.ledger.rejects import Rejects
from weir_ratelimiter.ledger.tables import head
from weir_ratelimiter.ledger.url import parse_url
from weir_ratelimiter.ledger.writer import LedgerWriter
from weir_ratelimiter.store.base import Backlog

_log = get_logger(__name__)

_READ_S = 5.0
_NOT_KNOWN = Backlog(0, None)


class LedgerStatus(msgspec.Struct, frozen=True):
    """How far the ledger is behind the account.

    Attributes:
        events: not written yet.
        age_ms: of the oldest of them; 0 if there is none.
        written_ms: last write by any process; None if there was none, or the database is down.
        error: why the last write failed; empty if it did not.
        outbox_error: why `events` and `age_ms` are not known; empty if they are.
    """

    events: int
    age_ms: int
    written_ms: int | None
    error: str
    outbox_error: str = ""


class Ledger:
    """The ledger of one ratelimiter.

    Args:
        url: see `parse_url`.
        secret: of the cluster, for pseudonyms.
        outbox: the account's store.
        registry: of the metrics.
        now_ms: wall time, Unix milliseconds.

    Raises:
        StartupError: the URL is not one of a ledger.
    """

    def __init__(
        self,
        url: str,
        secret: bytes,
        outbox: Outbox,
        registry: CollectorRegistry,
        now_ms: Callable[[], int],
    ) -> None:
        self.database = Database(parse_url(url))
        self.pseudonyms = Pseudonyms(secret)
        rejects = Rejects(self.database, now_ms)
        writer = LedgerWriter(self.database, self.pseudonyms, rejects, now_ms)
        self.pump = LedgerPump(outbox, writer, rejects, LedgerMetrics(registry), now_ms)
        self.budgets = LedgerBudgets(self.database, self.pump, now_ms)
        self.eraser = Eraser(self.database, self.pseudonyms, now_ms)
        self._outbox = outbox
        self._now_ms = now_ms

    async def start(self) -> None:
        """Open the database and begin to write. If it is down, events wait until it is not.

        Raises:
            StartupError: the database is of a later release, or its file cannot be made.
        """
        try:
            await self.database.ready()
        except StartupError:
            raise
        except FAILURES as error:
            _log.warning("ledger_unreachable", cause=cause_of(error), hint="see ledger_url")
        self.pump.start()

    async def stop(self) -> None:
        """Write what is left, for at most 2 seconds, and close; the store keeps the rest."""
        await self.pump.stop()
        await self.database.close()

    async def status(self) -> LedgerStatus:
        """How far it is behind, as far as store and database can tell."""
        backlog, outbox_error = await self._backlog()
        age_ms = 0 if backlog.oldest_ms is None else max(0, self._now_ms() - backlog.oldest_ms)
        written_ms, error = None, self.pump.last_error
        try:
            async with self.database.reading(_READ_S) as connection:
                written_ms = await connection.scalar(select(head.c.written_ms))
        except FAILURES as failure:
            error = error or cause_of(failure)
        return LedgerStatus(backlog.events, age_ms, written_ms, error, outbox_error)

    async def _backlog(self) -> tuple[Backlog, str]:
        """What waits in the store, and why that is not known; empty if it is."""
        try:
            async with asyncio.timeout(_READ_S):
                return await self._outbox.backlog(), ""
        except WeirError as error:
            return _NOT_KNOWN, error.message
        except TimeoutError:
            return _NOT_KNOWN, f"the store does not answer within {_READ_S:.0f} s"
