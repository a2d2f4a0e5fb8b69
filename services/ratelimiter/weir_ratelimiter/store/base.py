"""What keeps levels, leases and reservations. One call is one atomic decision."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import msgspec

from weir_core.errors import Reason, WeirError
from weir_ratelimiter.domain.adjustment import Adjustment
from weir_ratelimiter.domain.admission import ReserveCommand
from weir_ratelimiter.domain.calendar import Window
from weir_ratelimiter.domain.change import LedgerEvent, WindowMove
from weir_ratelimiter.domain.extension import Extension
from weir_ratelimiter.domain.limit import Limit
from weir_ratelimiter.domain.reservation import Reservation
from weir_ratelimiter.domain.settlement import Report
from weir_ratelimiter.domain.shortfall import Shortfall
from weir_ratelimiter.record import Record

Limits = Mapping[str, Limit]

Mark = Mapping[int, int]
"""A place in the outbox: the last event in each of its streams; the numbers are the store's."""


class LimitState(msgspec.Struct, frozen=True, gc=False):
    """Where one limit stands.

    Attributes:
        remaining: units free; below zero is debt.
        held: units held by open reservations.
        whole_in_ms: milliseconds until it is whole again without further use.
        window: id of the calendar window that the numbers are of; empty for other kinds.
        unseeded: the window, where the store knows nothing of it; the numbers are of an unused
            one then.
    """

    limit: Limit
    remaining: int
    held: int
    whole_in_ms: int
    window: str = ""
    unseeded: Window | None = None


class Reserved(msgspec.Struct, frozen=True, gc=False):
    """Answer to Reserve.

    Attributes:
        reservation: None if refused, and in a dry run.
        shortfalls: limits that refused; empty if admitted.
        shadowed: shadow limits that would have refused.
        replayed: the reservation was made by an earlier call.
        unseeded: windows of which the store knows nothing yet. Nothing was decided: `seed` them
            and ask again.
        degraded: decided by this process alone, on its share of the limits.
        states: where the command's limits stand afterwards, in their order, if the store knows
            without being asked.
    """

    reservation: Reservation | None
    shortfalls: tuple[Shortfall, ...] = ()
    shadowed: tuple[Shortfall, ...] = ()
    replayed: bool = False
    unseeded: tuple[tuple[Limit, Window], ...] = ()
    degraded: bool = False
    states: Sequence[LimitState] = ()


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


class Adjusted(msgspec.Struct, frozen=True, gc=False):
    """Answer to Adjust.

    Attributes:
        state: of the limit, now.
        units: that were given; negative: taken. Less than asked if a bucket had no room for more.
        replayed: an earlier call had made the adjustment.
    """

    state: LimitState
    units: int
    replayed: bool


class OutboxEntry(msgspec.Struct, frozen=True, gc=False):
    """An event that no ledger has acknowledged; `id` is the store's own."""

    id: str
    event: LedgerEvent


class Backlog(msgspec.Struct, frozen=True, gc=False):
    """How far the ledger is behind.

    Attributes:
        events: number of events not acknowledged.
        oldest_ms: when the oldest of them happened, Unix milliseconds; None if there is none.
    """

    events: int
    oldest_ms: int | None


class Store(Protocol):
    """Atomic decisions over all limits, and what became of each reservation.

    `limits` are the limits of the reservation's subject as they are configured now; each call
    brings them, so that a store needs no directory. A bucket is kept with the shape under which
    its level was reached, and brought into its limit's present shape at the next touch. A
    reservation that the store does not know is rebuilt from its record, unless the store knows
    that it has ended and been forgotten.

    A window that the store does not know stays unknown until it is seeded: rebuilding, extending
    and ending a reservation move only windows that are known (a charge reaches the ledger in any
    case, and the ledger is what seeds).

    Time may go back. A bucket that is more than its period ahead counts from now, and a Reserve
    that looks at it writes that down, even if it refuses. `lapsed` first shortens leases that
    end later than the longest ttl from now to their own ttl from now. Lapsed leases lose their
    places when a request is admitted to the same limit, and stay lost.

    Every method raises WeirError(LIMITER_UNAVAILABLE) if the decision could not be made
    durable; then it was not made. Methods that take a record also raise
    RESERVATION_NOT_FOUND, see above.
    """

    @property
    def epoch(self) -> str:
        """Id of the state that this store holds; a store that lost its state has another."""

    async def whole_epoch(self) -> str:
        """The epoch, asked of the store at this moment.

        Empty if a part of the state may be lost without the epoch changing.
        """

    async def reserve(self, command: ReserveCommand, *, dry_run: bool = False) -> Reserved:
        """Debit every limit or none; the same command again gets the same reservation.

        Raises:
            WeirError: RESERVATION_CONFLICT, RESERVATION_EXPIRED (see `check_replay`);
                LIMITER_UNAVAILABLE while the backlog of events is full (see `outbox_full`).
        """

    async def seed(
        self, tenant_id: str, moves: Sequence[WindowMove], *, at_least: bool = False
    ) -> None:
        """Set the counts of windows that are still unknown; leave the others as they are.

        With `at_least`, the others' use is raised to that of `moves` where it is less; what is
        held in them stays.
        """

    async def extend(
        self, record: Record, extension: Extension, limits: Limits
    ) -> ExtendedReservation:
        """Renew leases, note progress, debit more output.

        Raises:
            WeirError: RESERVATION_EXPIRED if it has ended or its leases have lapsed.
        """

    async def settle(self, record: Record, report: Report, limits: Limits) -> Ended:
        """Charge what ran, once. Never refused for a backlog of events."""

    async def refund(self, record: Record, outcome: int, lifecycle: bytes, limits: Limits) -> Ended:
        """Give back what never ran, once; settle by progress what did."""

    async def lapsed(self, most: int) -> Sequence[Reservation]:
        """Open reservations whose leases have lapsed, at most `most`, longest first."""

    async def expire(self, reservation: Reservation, limits: Limits) -> Reservation | None:
        """End a lapsed reservation; None if it was extended or ended meanwhile."""

    async def find(self, tenant_id: str, reservation_id: str) -> Reservation | None:
        """A reservation of a tenant, open or remembered."""

    async def open_reservations(
        self, tenant_id: str, after: tuple[int, str], most: int
    ) -> Sequence[Reservation]:
        """Open reservations of a tenant, lapsed ones included, by (`created_ms`, `id`).

        Args:
            tenant_id: whose.
            after: the pair of the last one seen; `(0, "")` for the first.
            most: how many at most.
        """

    async def states(self, tenant_id: str, limits: Sequence[Limit]) -> Sequence[LimitState]:
        """Where limits that apply to a tenant stand, in their order. Changes nothing."""

    async def adjust(self, adjustment: Adjustment) -> Adjusted:
        """Give units to a bucket or a seeded window, or take them; write a GRANT event.

        Once by (tenant, adjustment id), as long as ended reservations are remembered.

        Raises:
            WeirError: IDEMPOTENCY_CONFLICT if the id was used for another adjustment.
            InvalidField: the level would leave -2^53..2^53.
        """

    async def outbox(self, most: int) -> Sequence[OutboxEntry]:
        """The oldest events that no ledger has acknowledged."""

    async def acknowledge(self, ids: Sequence[str]) -> None:
        """Forget events that the ledger has; unknown ids are passed over."""

    async def backlog(self) -> Backlog:
        """How far the ledger is behind."""

    async def mark(self, tenant_id: str) -> Mark:
        """A place behind every event that any process has written by now.

        Args:
            tenant_id: whose events are meant; empty: everybody's.
        """

    async def is_past(self, mark: Mark) -> bool:
        """Whether every event of before a mark is acknowledged; if not, `outbox` has some."""

    async def close(self) -> None:
        """Make everything durable and release the store."""


def outbox_full(events: int, most: int) -> WeirError:
    """Why no request is admitted while the ledger is `most` events or more behind."""
    return WeirError(
        Reason.LIMITER_UNAVAILABLE,
        f"the ledger is {events} events behind, and {most} are kept for it; requests that run "
        "are settled, new ones wait until the ledger takes events again",
        retry_after_s=5.0,
    )
