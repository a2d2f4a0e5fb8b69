"""The ledger is behind the account."""

from collections.abc import Iterable

from weir_cli.doctor.evidence import Evidence
from weir_cli.doctor.fault import fault
from weir_cli.doctor.finding import Finding

LATE_S = 60.0
"""Age of an event; a pump moves them several times a second."""
NEARLY = 0.5
"""Of the number of events at which new work is refused."""


class LedgerLag:
    """Events wait to become rows."""

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        """See `Fault`."""
        newest = evidence.newest
        if newest is None or not newest.parts.HasField("ledger"):
            return
        ledger = newest.parts.ledger
        late = ledger.outbox_age_ms / 1e3 >= LATE_S
        many = bool(ledger.outbox_most) and ledger.outbox_events >= NEARLY * ledger.outbox_most
        if late or many or ledger.last_error:
            yield fault(
                "ledger_lag",
                "ledger",
                (
                    f"{ledger.outbox_events} events wait to become rows of the ledger, the oldest "
                    f"for {ledger.outbox_age_ms / 1e3:.0f} s; at {ledger.outbox_most} new work is "
                    "refused",
                    f"its last write failed: {ledger.last_error}" if ledger.last_error else "",
                ),
                "look at the database of `ledger_url` and its disk; nothing is lost meanwhile "
                "(`weir ledger status`)",
            )
