"""Whom the console asks."""

from dataclasses import dataclass

from weir_core.clock import Clock
from weir_core.errors import Reason, WeirError
from weir_gateway.console.card import Cards
from weir_gateway.directory.follower import Directory
from weir_gateway.links.account_reader import AccountReader
from weir_gateway.links.ledger_reader import LedgerReader
from weir_gateway.links.scheduler_reader import SchedulerReader


@dataclass(frozen=True, slots=True)
class Sources:
    """The other services and the directory.

    Attributes:
        accounts, ledger: of the ratelimiter.
        scheduler: what waits, and the workers.
        directory: who and what there is.
        cards: makes cards of what they tell.
        clock: time.
    """

    accounts: AccountReader
    ledger: LedgerReader
    scheduler: SchedulerReader
    directory: Directory
    cards: Cards
    clock: Clock


def only_at_edges() -> WeirError:
    """What a process without the edge role cannot tell."""
    return WeirError(
        Reason.NOT_BUILT_YET,
        "this gateway has the role control and sees no requests; open the console of a gateway "
        "with the role both",
    )
