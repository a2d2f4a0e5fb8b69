"""The effect of one decision: what a store writes down, whole, before anybody is answered."""

from enum import IntEnum

import msgspec

from weir_core.bucket import BucketShape, BucketState
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


class Move(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A debit (positive) or credit (negative) of one bucket, and the bucket afterwards.

    `amount` is counted before the level is clamped at the capacity.
    """

    key: str
    amount: int
    bucket: Bucket


class EventKind(IntEnum):
    """What a ledger row records."""

    CHARGE = 1
    ADJUST = 2


class LedgerEvent(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A row for the ledger, unique by (`reservation_id`, `kind`).

    Every reservation that ends has one CHARGE, of zero tokens where nothing ran; a late
    settlement adds one ADJUST, whose `charged` is the new total and `previous` the old one.
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


class Change(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="change"):
    """One decision's effect on buckets, reservation and outbox.

    `reservation` is None where limits alone changed their shape.
    """

    at_ms: int
    moves: tuple[Move, ...]
    reservation: Reservation | None
    event: LedgerEvent | None = None
