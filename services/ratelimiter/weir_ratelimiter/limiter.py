"""The token account: turns questions of callers into decisions of the store."""

import asyncio
from collections.abc import Callable, Sequence

import msgspec

from weir_core.errors import InvalidField, LimitExceeded, Reason, WeirError
from weir_core.errors.refusal import LIMITER_MODE
from weir_ratelimiter.ask import Ask
from weir_ratelimiter.budget_source import BudgetSource, NoLedger
from weir_ratelimiter.directory.book import LimitBook
from weir_ratelimiter.domain.adjustment import Adjustment
from weir_ratelimiter.domain.extension import Extension
from weir_ratelimiter.domain.limit import HELD, Kind
from weir_ratelimiter.domain.refusal import refused_for_ever, refused_for_now
from weir_ratelimiter.domain.reservation import Reservation
from weir_ratelimiter.domain.retry_hint import spread
from weir_ratelimiter.domain.settlement import Report
from weir_ratelimiter.domain.subject import Subject
from weir_ratelimiter.domain.usage import Quality
from weir_ratelimiter.estimate import OutputEstimate
from weir_ratelimiter.metrics import LimiterMetrics
from weir_ratelimiter.record import Record, RecordSigner
from weir_ratelimiter.reserve_command import command_of, never_fits
from weir_ratelimiter.seeded_store import SeededStore
from weir_ratelimiter.store.base import (
    Adjusted,
    Ended,
    ExtendedReservation,
    LimitState,
    Reserved,
    Store,
)

_SWEPT_AT_ONCE = 100


class Admission(msgspec.Struct, frozen=True):
    """An admitted request.

    Attributes:
        reservation: None in a dry run.
        record: signed, for the caller to echo; empty in a dry run.
        states: every counted limit that applies, after the decision.
        degraded: decided by this process alone, on its share of the limits.
    """

    reservation: Reservation | None
    record: bytes
    states: Sequence[LimitState]
    replayed: bool
    degraded: bool = False


class Limiter:
    """Resolves limits, makes static checks, and has the store decide.

    Every method raises WeirError(LIMITER_UNAVAILABLE) until the directory has come, and while
    the store cannot make decisions durable.

    Args:
        store: where decisions are made.
        signer: of the records.
        now_ms: wall time, Unix milliseconds, for reset times.
        default_ttl_ms: life of leases that ask for none.
        metrics: what decisions are counted in.
        budgets: what windows were used for before the store knew them.
        degraded: whether the store decides on a share of the limits, see `store/degraded`.
    """

    def __init__(
        self,
        store: Store,
        signer: RecordSigner,
        *,
        now_ms: Callable[[], int],
        default_ttl_ms: int,
        metrics: LimiterMetrics,
        budgets: BudgetSource | None = None,
        degraded: Callable[[], bool] = lambda: False,
    ) -> None:
        self._store = store
        self._seeded = SeededStore(store, budgets or NoLedger(), now_ms)
        self._signer = signer
        self._now_ms = now_ms
        self._default_ttl_ms = default_ttl_ms
        self._metrics = metrics
        self._degraded = degraded
        self._book: LimitBook | None = None
        self._estimate = OutputEstimate()

    @property
    def book(self) -> LimitBook:
        """The limits in force.

        Raises:
            WeirError: LIMITER_UNAVAILABLE before the first.
        """
        if self._book is None:
            raise WeirError(
                Reason.LIMITER_UNAVAILABLE,
                "the limiter has not received the directory of limits yet; is the gateway's "
                "control role up, and does the limiter's --directory-address point at it?",
                retry_after_s=1.0,
            )
        return self._book

    @property
    def degraded(self) -> bool:
        """Whether limits are enforced on this process's share alone, as the store is away."""
        return self._degraded()

    def use(self, book: LimitBook) -> None:
        """Put new limits in force; levels are kept (see `BucketShape.reshaped`)."""
        self._seeded.continuity.use(book)
        self._book = book

    async def reserve(self, ask: Ask, *, dry_run: bool = False) -> Admission:
        """Admit a request or refuse it with the full account of why.

        Raises:
            InvalidField: a field is out of bounds.
            LimitExceeded: it does not fit now (with `retry_after_s`), or never.
            WeirError: see `LimitBook.resolve` and `Store.reserve`.
        """
        ask.checked()
        resolution = self.book.resolve(ask.subject)
        output = self._estimate.of(ask, resolution)
        amounts = ask.amounts(output, resolution.price)
        never = never_fits(ask, resolution, amounts)
        # A retry of what was admitted before its limits were cut gets its reservation.
        if never and await self._store.find(ask.subject.tenant_id, ask.id) is None:
            self._metrics.refused(ask.subject, never)
            raise refused_for_ever(never, self._now_ms())
        command = command_of(ask, resolution, output, amounts, self._default_ttl_ms)
        reserved = await self._seeded.reserve(command, dry_run=dry_run)
        self._count(ask, reserved, dry_run=dry_run)
        if reserved.shortfalls:
            raise self._refusal(ask, reserved)
        reservation = reserved.reservation
        return Admission(
            reservation,
            b"" if reservation is None else self._signer.sign(reservation, self._store.epoch),
            reserved.states or await self._store.states(ask.subject.tenant_id, resolution.counted),
            reserved.replayed,
            reserved.degraded,
        )

    def read(self, record: bytes) -> Record:
        """What a record says.

        Raises:
            WeirError: RESERVATION_RECORD_INVALID.
        """
        return self._signer.read(record)

    async def extend(self, known: Record, extension: Extension) -> ExtendedReservation:
        """Renew leases, note progress, debit more output.

        Leases are renewed and progress is kept even if no more output is granted, so that the
        settlement comes in time.

        Raises:
            WeirError: TENANT_SUSPENDED or API_KEY_REVOKED since it was reserved; see also
                `Store.extend`.
        """
        resolution = self.book.resolve_for_ending(known.subject)
        closed = _closed(self.book, known.subject)
        if closed is not None:
            extension = msgspec.structs.replace(extension, additional_tokens=0)
        extension = msgspec.structs.replace(extension, may_owe=resolution.may_owe)
        extended = await self._store.extend(known, extension, resolution.by_key)
        self._metrics.extended(known.subject, extended)
        if closed is not None:
            raise closed
        return extended

    async def settle(self, record: bytes, report: Report) -> Ended:
        """Charge what ran. Raises as `Store.settle`."""
        known = self._signer.read(record)
        limits = self.book.resolve_for_ending(known.subject).by_key
        ended = await self._store.settle(known, report, limits)
        if report.quality is Quality.EXACT and report.usage is not None and not ended.already:
            self._estimate.observe(known.subject, report.usage.completion_tokens)
        self._metrics.ended("settle", ended)
        return ended

    async def refund(self, record: bytes, outcome: int, lifecycle: bytes) -> Ended:
        """Give back what never ran. Raises as `Store.refund`."""
        known = self._signer.read(record)
        limits = self.book.resolve_for_ending(known.subject).by_key
        ended = await self._store.refund(known, outcome, lifecycle, limits)
        self._metrics.ended("refund", ended)
        return ended

    async def sweep(self) -> None:
        """End every reservation whose leases have lapsed: by its progress, or whole.

        Does nothing before the directory has come: what is due then is due later, too.
        """
        self._seeded.continuity.observe()
        while self._book is not None:
            lapsed = await self._store.lapsed(_SWEPT_AT_ONCE)
            for reservation in lapsed:
                await self._expire(reservation, self._book)
            if len(lapsed) < _SWEPT_AT_ONCE:
                return
            await asyncio.sleep(0)

    async def states(self, subject: Subject) -> Sequence[LimitState]:
        """Where every limit of a subject stands, contexts last; its model may be empty."""
        resolution = self.book.resolve_for_ending(subject)
        counted = await self._seeded.states(subject.tenant_id, resolution.counted)
        contexts = [entry for entry in resolution.limits if entry.kind is Kind.CONTEXT]
        return [*counted, *(LimitState(entry, entry.capacity, 0, 0) for entry in contexts)]

    async def find(self, tenant_id: str, reservation_id: str) -> Reservation:
        """A reservation of a tenant.

        Raises:
            WeirError: RESERVATION_NOT_FOUND; the same for one of another tenant.
        """
        found = await self._store.find(tenant_id, reservation_id)
        if found is None:
            raise WeirError(
                Reason.RESERVATION_NOT_FOUND,
                "the tenant has no such reservation: a request that was refused holds none, and "
                "one that ended is remembered for `remember_s` (a day)",
                field="reservation_id",
            )
        return found

    async def open_reservations(
        self, tenant_id: str, after: tuple[int, str], most: int
    ) -> Sequence[Reservation]:
        """Open reservations of a tenant, see `Store.open_reservations`."""
        return await self._store.open_reservations(tenant_id, after, most)

    async def adjust(
        self, adjustment_id: str, subject: Subject, limit_id: str, units: int, note: str
    ) -> Adjusted:
        """Give units to a bucket or a window of a subject, or take them.

        Raises:
            InvalidField: the limit is neither; the level would leave its bounds.
            WeirError: NOT_FOUND if no such limit applies to the subject; see also
                `Store.adjust`.
        """
        limit = self.book.resolve_for_ending(subject).by_key.get(limit_id)
        if limit is None:
            raise WeirError(
                Reason.NOT_FOUND,
                f"no limit {limit_id:.200} applies to the subject",
                field="limit_id",
            )
        if limit.kind in HELD:
            raise InvalidField("limit_id", limit_id, "a bucket or a window")
        return await self._seeded.adjust(Adjustment(adjustment_id, subject, limit, units, note))

    async def _expire(self, reservation: Reservation, book: LimitBook) -> None:
        limits = book.resolve_for_ending(reservation.subject).by_key
        ended = await self._store.expire(reservation, limits)
        if ended is not None:
            self._metrics.ended("expire", Ended(ended))

    def _refusal(self, ask: Ask, reserved: Reserved) -> LimitExceeded:
        refused = refused_for_now(reserved.shortfalls, self._now_ms())
        if refused.retry_after_s is not None and refused.reason is not Reason.BUDGET_EXHAUSTED:
            refused.retry_after_s = spread(refused.retry_after_s, ask.id)
        if reserved.degraded:
            refused.metadata[LIMITER_MODE] = "degraded"
        return refused

    def _count(self, ask: Ask, reserved: Reserved, *, dry_run: bool) -> None:
        if dry_run:
            return
        self._metrics.shadow_refused(ask.subject, reserved.shadowed)
        if reserved.shortfalls:
            self._metrics.refused(ask.subject, reserved.shortfalls)
        elif not reserved.replayed:
            self._metrics.admitted()


def _closed(book: LimitBook, subject: Subject) -> WeirError | None:
    """Why nothing more may be done for a subject, if so."""
    try:
        book.resolve(subject)
    except WeirError as error:
        if error.reason in (Reason.TENANT_SUSPENDED, Reason.API_KEY_REVOKED):
            return error
    return None
