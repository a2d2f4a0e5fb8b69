"""Levels, leases and reservations in memory: a pure function of the changes applied."""

import heapq
from collections import OrderedDict, defaultdict, deque
from collections.abc import Iterable, Iterator

from weir_ratelimiter.domain.calendar import surely_over_ms
from weir_ratelimiter.domain.change import Bucket, Change, Count, EventKind, LedgerEvent, Move
from weir_ratelimiter.domain.leases import LeaseSet
from weir_ratelimiter.domain.limit import Kind, Limit
from weir_ratelimiter.domain.reservation import Reservation

# To look a member of an IntEnum up costs ten times as much as a global.
_BUCKET, _LEASE, _HOLD = Kind.BUCKET, Kind.LEASE, Kind.HOLD


class MemoryState:
    """All that the memory store knows.

    What has ended is remembered for `horizon_ms`, at most `most_ended` of it; what was
    forgotten was made at `forgotten_upto_ms` or before.
    """

    def __init__(self, *, horizon_ms: int, most_ended: int) -> None:
        self._horizon_ms = horizon_ms
        self._most_ended = most_ended
        self.buckets: dict[str, Bucket] = {}
        self.windows: dict[tuple[str, str], Count] = {}
        self.reservations: dict[str, Reservation] = {}
        self.open: dict[str, Reservation] = {}
        """Those of `reservations` that hold something."""
        self.held: defaultdict[str, int] = defaultdict(int)
        """Units that open reservations hold in each bucket."""
        self.in_flight: dict[str, int] = {}
        """Units that they have of each hold."""
        self.leases: defaultdict[str, LeaseSet] = defaultdict(LeaseSet)
        self.grants: OrderedDict[tuple[str, str], LedgerEvent] = OrderedDict()
        """Adjustments by tenant and adjustment id, oldest first."""
        self.outbox: OrderedDict[int, LedgerEvent] = OrderedDict()
        self.next_sequence = 1
        self.forgotten_upto_ms = 0
        self._by_expiry: list[tuple[int, str]] = []
        self._latest_expiry_ms = 0
        """No lease ends after."""
        self._open_tokens = 0
        self._ended: deque[tuple[int, str]] = deque()

    def apply(self, change: Change) -> None:
        """Take the effect of one decision."""
        for move in change.moves:
            self.buckets[move.key] = move.bucket
        for moved in change.counts:
            self.windows[moved.key, moved.window] = moved.count
        if change.reservation is not None:
            self.put(change.reservation, change.at_ms)
        if change.event is not None:
            self.outbox[self.next_sequence] = change.event
            self.next_sequence += 1
            if change.event.kind is EventKind.GRANT:
                self.remember_grant(change.event)

    def acknowledge(self, sequences: Iterable[int]) -> None:
        """Drop events that the ledger has."""
        for sequence in sequences:
            self.outbox.pop(sequence, None)

    def remember_grant(self, event: LedgerEvent) -> None:
        """Know an adjustment again."""
        self.grants[event.subject.tenant_id, event.reservation_id] = event

    def by_end(self) -> Iterator[Reservation]:
        """All reservations: the open ones, then the ended in the order in which they ended."""
        yield from self.open.values()
        for _, reservation_id in self._ended:
            yield self.reservations[reservation_id]

    def load(self, reservation: Reservation) -> None:
        """Put a reservation of a snapshot in place, its leases apart."""
        self.reservations[reservation.id] = reservation
        if reservation.open:
            self.open[reservation.id] = reservation
            self._count(reservation, 1)
            self._latest_expiry_ms = max(self._latest_expiry_ms, reservation.expires_ms)
            heapq.heappush(self._by_expiry, (reservation.expires_ms, reservation.id))
        else:
            self._ended.append((_ended_ms(reservation), reservation.id))

    def put(self, reservation: Reservation, at_ms: int) -> None:
        """Replace a reservation by its present state."""
        old = self.reservations.get(reservation.id)
        self.reservations[reservation.id] = reservation
        was_open = old is not None and old.open
        if old is not None and was_open:
            self._count(old, -1)
            del self.open[reservation.id]
        if reservation.open:
            self.open[reservation.id] = reservation
            self._count(reservation, 1)
            self._latest_expiry_ms = max(self._latest_expiry_ms, reservation.expires_ms)
            for key in _lease_keys(reservation):
                leases = self.leases[key]
                # Who lost its place before the clock went back does not get another one.
                if not was_open or reservation.id in leases:
                    leases.hold(reservation.id, at_ms, reservation.expires_ms)
            if old is None or reservation.expires_ms < old.expires_ms:
                heapq.heappush(self._by_expiry, (reservation.expires_ms, reservation.id))
        else:
            if old is not None and was_open:
                self._release(old)
            if old is None or was_open:
                self._ended.append((_ended_ms(reservation), reservation.id))
            self._forget(at_ms)

    def lapsed(self, now_ms: int, most: int) -> list[Reservation]:
        """Open reservations whose leases have lapsed, longest first."""
        found: dict[str, Reservation] = {}
        while self._by_expiry and self._by_expiry[0][0] <= now_ms and len(found) < most:
            _, reservation_id = heapq.heappop(self._by_expiry)
            reservation = self.reservations.get(reservation_id)
            if reservation is None or not reservation.open:
                continue
            if reservation.expired_at(now_ms):
                found[reservation_id] = reservation
            else:
                heapq.heappush(self._by_expiry, (reservation.expires_ms, reservation_id))
        for reservation in found.values():
            heapq.heappush(self._by_expiry, (reservation.expires_ms, reservation.id))
        return list(found.values())

    def has_lapsed(self, reservation: Reservation, now_ms: int) -> bool:
        """Whether an open reservation lost its leases, be it before the clock went back."""
        return reservation.expired_at(now_ms) or any(
            reservation.id not in self.leases.get(key, ()) for key in _lease_keys(reservation)
        )

    def outliving(self, latest_ms: int) -> list[Reservation]:
        """Open reservations whose leases end after `latest_ms`."""
        if self._latest_expiry_ms <= latest_ms:
            return []
        found = [r for r in self.open.values() if r.expires_ms > latest_ms]
        self._latest_expiry_ms = max((r.expires_ms for r in found), default=latest_ms)
        return found

    def restarted(self, limits: Iterable[Limit], now_ms: int) -> tuple[Move, ...]:
        """Moves that make the buckets of `limits` count from now whose clock went far back."""
        moves = []
        for limit in limits:
            stored = self.buckets.get(limit.key) if limit.kind is Kind.BUCKET else None
            if stored is not None and stored.state.at_ms - now_ms > stored.shape.period_ms:
                moves.append(Move(limit.key, 0, self.bucket(limit, now_ms)))
        return tuple(moves)

    def forget_idle(self, now_ms: int) -> None:
        """Forget what has been idle for as long as the end of a reservation is remembered.

        Buckets that were full by then, since one that is not there is full, and windows that
        were over. Sooner, a late settlement or a clock that goes back could tell.
        """
        idle_since_ms = now_ms - self._horizon_ms
        for key, bucket in list(self.buckets.items()):
            if bucket.full_since(idle_since_ms):
                del self.buckets[key]
        for key, window in [name for name, count in self.windows.items() if count.held == 0]:
            if surely_over_ms(window) < idle_since_ms:
                del self.windows[key, window]

    def totals(self, now_ms: int) -> dict[str, int]:
        """Sums over everything, for metrics."""
        debt = 0
        for bucket in self.buckets.values():
            if bucket.state.level < 0:
                debt += max(0, -bucket.shape.refilled(bucket.state, now_ms).level)
        return {
            "open_reservations": len(self.open),
            "held_leases": sum(leases.held(now_ms) for leases in self.leases.values()),
            "held_tokens": self._open_tokens,
            "debt_units": debt,
            "outbox_events": len(self.outbox),
        }

    def bucket(self, limit: Limit, now_ms: int) -> Bucket:
        """See `Levels`; a bucket that is not there is full."""
        shape = limit.shape
        stored = self.buckets.get(limit.key)
        if stored is None:
            return Bucket(shape, shape.full(now_ms))
        if stored.state.at_ms == now_ms and stored.shape is shape:
            return stored
        return stored.in_shape(shape, now_ms)

    def bucket_of_removed(self, key: str, now_ms: int) -> Bucket | None:
        """See `Levels`."""
        stored = self.buckets.get(key)
        if stored is None:
            return None
        return Bucket(stored.shape, stored.shape.refilled(stored.state, now_ms))

    def window(self, key: str, window: str) -> Count | None:
        """See `Levels`."""
        return self.windows.get((key, window))

    def leases_held(self, key: str, now_ms: int) -> int:
        """See `Levels`."""
        leases = self.leases.get(key)
        return 0 if leases is None else leases.held(now_ms)

    def lease_wait_ms(self, key: str, now_ms: int) -> int:
        """See `Levels`."""
        leases = self.leases.get(key)
        return 0 if leases is None else leases.wait_ms(now_ms)

    def units_held(self, key: str) -> int:
        """See `Levels`."""
        return self.in_flight.get(key, 0)

    def _count(self, reservation: Reservation, sign: int) -> None:
        self._open_tokens += sign * (reservation.prompt_tokens + reservation.output_tokens)
        for entry in reservation.entries:
            if entry.kind is _BUCKET:
                _add(self.held, entry.key, sign * entry.amount)
            elif entry.kind is _HOLD:
                _add(self.in_flight, entry.key, sign * entry.amount)

    def _release(self, reservation: Reservation) -> None:
        for key in _lease_keys(reservation):
            leases = self.leases[key]
            leases.release(reservation.id)
            if not leases:
                del self.leases[key]

    def _forget(self, now_ms: int) -> None:
        oldest_kept = now_ms - self._horizon_ms
        while self._ended and (
            len(self._ended) > self._most_ended or self._ended[0][0] < oldest_kept
        ):
            _, reservation_id = self._ended.popleft()
            gone = self.reservations.pop(reservation_id)
            self.forgotten_upto_ms = max(self.forgotten_upto_ms, gone.created_ms)
        while self.grants and next(iter(self.grants.values())).settled_ms < oldest_kept:
            self.grants.popitem(last=False)


def _add(sums: dict[str, int], key: str, units: int) -> None:
    total = sums.get(key, 0) + units
    if total:
        sums[key] = total
    else:
        sums.pop(key, None)


def _lease_keys(reservation: Reservation) -> list[str]:
    return [entry.key for entry in reservation.entries if entry.kind is _LEASE]


def _ended_ms(reservation: Reservation) -> int:
    return reservation.settlement.settled_ms if reservation.settlement else 0
