"""What keeps levels, leases and reservations. One call is one atomic decision."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import msgspec

from weir_core.bucket import BucketShape
from weir_ratelimiter.domain.admission import ReserveCommand
from weir_ratelimiter.domain.change import LedgerEvent
from weir_ratelimiter.domain.extension import Extension
from weir_ratelimiter.domain.limit import Limit
from weir_ratelimiter.domain.reservation import Reservation
from weir_ratelimiter.domain.settlement import Report
from weir_ratelimiter.domain.shortfall import Shortfall
from weir_ratelimiter.record import Record

Limits = Mapping[str, Limit]


class Reserved(msgspec.Struct, frozen=True, gc=False):
    """Answer to Reserve.

    Attributes:
        reservation: None if refused, and in a dry run.
        shortfalls: limits that refused; empty if admitted.
        shadowed: shadow limits that would have refused.
        replayed: the reservation was made by an earlier call.
    """

    reservation: Reservation | None
    shortfalls: tuple[Shortfall, ...] = ()
    shadowed: tuple[Shortfall, ...] = ()
    replayed: bool = False


class ExtendedReservation(msgspec.Struct, frozen=True, gc=False):
    """Answer to Extend; `shortfalls` are the limits that refused the additional tokens."""

    reservation: Reservation
    shortfalls: tuple[Shortfall, ...]
    in_debt: bool


class Ended(msgspec.Struct, frozen=True, gc=False):
    """Answer to Settle and Refund.

    Attributes:
        already: an earlier call had ended it; `reservation` shows how.
        conflict: this call reported another usage than the one that stands.
    """

    reservation: Reservation
    already: bool = False
    conflict: bool = False


class LimitState(msgspec.Struct, frozen=True, gc=False):
    """Where one limit stands.

    Attributes:
        remaining: units free; below zero is debt.
        held: units held by open reservations.
        whole_in_ms: milliseconds until it is whole again without further use.
        window: id of the calendar window that the numbers are of; empty for other kinds.
    """

    limit: Limit
    remaining: int
    held: int
    whole_in_ms: int
    window: str = ""


class Store(Protocol):
    """Atomic decisions over all limits, and what became of each reservation.

    `limits` are the limits of the reservation's subject as they are configured now; each call
    brings them, so that a store needs no directory. A reservation that the store does not know
    is rebuilt from its record, unless the store knows that it has ended and been forgotten.

    Every method raises WeirError(LIMITER_UNAVAILABLE) if the decision could not be made
    durable; then it was not made. Methods that take a record also raise
    RESERVATION_NOT_FOUND, see above.
    """

    @property
    def epoch(self) -> str:
        """Id of the state that this store holds; a store that lost its state has another."""

    async def reserve(self, command: ReserveCommand, *, dry_run: bool = False) -> Reserved:
        """Debit every limit or none; the same command again gets the same reservation.

        Raises:
            WeirError: RESERVATION_CONFLICT, RESERVATION_EXPIRED (see `check_replay`).
        """

    async def extend(
        self, record: Record, extension: Extension, limits: Limits
    ) -> ExtendedReservation:
        """Renew leases, note progress, debit more output.

        Raises:
            WeirError: RESERVATION_EXPIRED if it has ended or its leases have lapsed.
        """

    async def settle(self, record: Record, report: Report, limits: Limits) -> Ended:
        """Charge what ran, once."""

    async def refund(self, record: Record, outcome: int, lifecycle: bytes, limits: Limits) -> Ended:
        """Give back what never ran, once; settle by progress what did."""

    async def lapsed(self, most: int) -> Sequence[Reservation]:
        """Open reservations whose leases have lapsed, at most `most`, longest first."""

    async def expire(self, reservation: Reservation, limits: Limits) -> Reservation | None:
        """End a lapsed reservation; None if it was extended or ended meanwhile."""

    async def find(self, reservation_id: str) -> Reservation | None:
        """A reservation, open or remembered."""

    async def states(self, limits: Sequence[Limit]) -> Sequence[LimitState]:
        """Where limits stand, in their order. Changes nothing."""

    async def reshape(self, shape_of: Callable[[str], BucketShape | None]) -> None:
        """Bring buckets into the shape that `shape_of` gives for each key, use kept."""

    async def outbox(self, most: int) -> Sequence[tuple[int, LedgerEvent]]:
        """The oldest events that no ledger has acknowledged, by sequence number."""

    async def acknowledge(self, upto: int) -> None:
        """Forget events up to and including sequence number `upto`."""

    async def close(self) -> None:
        """Make everything durable and release the store."""
