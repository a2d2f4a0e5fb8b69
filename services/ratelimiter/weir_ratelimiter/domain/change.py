"""The effect of one decision: what a store writes down, whole, before anybody is answered."""

from enum import IntEnum

import msgspec

from weir_core.bucket import BucketShape, BucketState
from weir_ratelimiter.domain.price import FREE, Price
from weir_ratelimiter.domain.reservation import Reservation
from weir_ratelimiter.domain.subject import Subject
from weir_ratelimiter.domain.usage import Quality, Usage


class Bucket(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A bucket with the shape under which its state was reached."""

    shape: BucketShape
    state: BucketState

    @property
    def level(self) -> int:
        """Whole units, negative in debt."""
        return self.state.level

    def full_since(self, moment_ms: int) -> bool:
        """Whether it was full at `moment_ms` and nothing has moved it since."""
        state = self.state
        return state.at_ms <= moment_ms and self.shape.is_full(
            self.shape.refilled(state, moment_ms)
        )

    def in_shape(self, shape: BucketShape, now_ms: int) -> "Bucket":
        """The bucket refilled to `now_ms`, and then brought into `shape`."""
        state = self.shape.refilled(self.state, now_ms)
        if self.shape is not shape and self.shape != shape:
            state = self.shape.reshaped(state, shape)
        return Bucket(shape, state)


class Move(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A debit (positive) or credit (negative) of one bucket, and the bucket afterwards.

    `amount` is counted before the level is clamped at the capacity.
    """

    key: str
    amount: int
    bucket: Bucket


class Count(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One window of one limit: what was charged to it, and what open reservations hold."""

    used: int = 0
    held: int = 0


class WindowMove(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A change of one window of one limit, and its count afterwards.

    `window` is the id (see `calendar.Window`). Charges move what is held to what is used.
    """

    key: str
    window: str
    count: Count


class EventKind(IntEnum):
    """What a ledger row records (`weir.ratelimiter.v1.LedgerRowKind`)."""

    CHARGE = 1
    ADJUST = 2
    GRANT = 3


class LedgerEvent(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A row for the ledger, unique by (`reservation_id`, `kind`).

    Every reservation that ends has one CHARGE, of zero tokens where nothing ran; a late
    settlement adds one ADJUST, whose `charged` is the new total and `previous` the old one.
    A GRANT is an operator's adjustment of one limit: `reservation_id` is its adjustment id, and
    `limit_id`, `units` and `note` say what was given, `asked` what was to be. `requests` is what
    limits of requests were charged: none for what was refunded whole, a signed difference in an
    ADJUST.
    """

    reservation_id: str
    kind: EventKind
    request_id: str
    subject: Subject
    charged: Usage
    previous: Usage
    quality: Quality
    outcome: int
    price_version: int
    created_ms: int
    settled_ms: int
    lifecycle: bytes
    price: Price = FREE
    limit_id: str = ""
    units: int = 0
    note: str = ""
    requests: int = 0
    asked: int = 0

    @property
    def amount_nanos(self) -> int:
        """What the row costs, nano-units: signed in an ADJUST."""
        return self.price.cost(self.charged) - self.price.cost(self.previous)


class Change(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="change"):
    """One decision's effect on buckets, windows, reservation and outbox.

    `reservation` is None where limits alone changed their shape.
    """

    at_ms: int
    moves: tuple[Move, ...]
    reservation: Reservation | None
    event: LedgerEvent | None = None
    counts: tuple[WindowMove, ...] = ()
