"""Tries once more to write what was set aside."""

import msgspec

from weir_core.telemetry.logs import get_logger
from weir_ratelimiter.domain.change import LedgerEvent
from weir_ratelimiter.ledger.rejects import POISON, Rejects
from weir_ratelimiter.ledger.writer import LedgerWriter

_log = get_logger(__name__)

_AT_ONCE = 100


class Redriven(msgspec.Struct):
    """What became of the events that were set aside.

    Attributes:
        written: are in the ledger now, and set aside no more.
        kept: still cannot be written, or still contradict a row.
    """

    written: int = 0
    kept: int = 0


class Redrive:
    """Goes through the rejects; a release or a database that has changed may take them.

    Args:
        writer: of the ledger.
        rejects: what was set aside.
    """

    def __init__(self, writer: LedgerWriter, rejects: Rejects) -> None:
        self._writer = writer
        self._rejects = rejects

    async def run(self) -> Redriven:
        """Try each event once. It may be interrupted, and run beside others.

        Raises:
            one of `FAILURES`: the database is down; what is set aside stays so.
        """
        done, after = Redriven(), ""
        while some := await self._rejects.some(after, _AT_ONCE):
            for digest, event in some:
                if await self._is_written(event):
                    await self._rejects.remove(digest)
                    done.written += 1
                else:
                    done.kept += 1
            after = some[-1][0]
        if done.written or done.kept:
            _log.warning("ledger_rejects_redriven", written=done.written, kept=done.kept)
        return done

    async def _is_written(self, event: LedgerEvent) -> bool:
        try:
            return not (await self._writer.write([event])).contradictions
        except POISON:
            return False
