"""A reservation and its states: RESERVED -> SETTLED | REFUNDED | EXPIRED; the last two may
become SETTLED once more, late, when a count arrives after all."""

from enum import IntEnum

import msgspec

from weir_ratelimiter.domain.limit import Kind, Resource
from weir_ratelimiter.domain.price import FREE, Price
from weir_ratelimiter.domain.subject import Subject
from weir_ratelimiter.domain.usage import Quality, Usage

LONGEST_TTL_MS = 600_000
"""Longest life of a lease without an extension."""


class State(IntEnum):
    """Life of a reservation (`weir.ratelimiter.v1.ReservationState`)."""

    RESERVED = 1
    SETTLED = 2
    REFUNDED = 3
    EXPIRED = 4


class Entry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What one limit holds for a reservation.

    Attributes:
        key: key of the limit.
        amount: units debited or held; 1 for a lease.
        window: id of the calendar window that it was debited to; empty for other kinds.
    """

    key: str
    kind: Kind
    resource: Resource
    amount: int
    window: str = ""


class Settlement(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """How a reservation ended.

    Attributes:
        charged: what all layers were charged.
        reported: what the caller reported; None from the sweep and from refunds.
        quality: how far `charged` may be trusted.
        outcome: number of `weir.common.v1.Outcome`.
        settled_ms: Unix milliseconds.
        late: it corrects an earlier expiry or refund.
    """

    charged: Usage
    reported: Usage | None
    quality: Quality
    outcome: int
    settled_ms: int
    late: bool = False


class Reservation(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One request's hold on all layers.

    Attributes:
        fingerprint: of the contents under which `request_id` was first seen.
        entries: what is held; empty once it has ended.
        prompt_tokens: prompt tokens debited.
        output_tokens: output tokens debited, extensions included.
        max_new_tokens: bound on output.
        ttl_ms: life of the leases without an extension.
        price_version: version of the prices at reserve time.
        dispatched: a worker has it; prompt and request count from then on.
        progress: tokens so far, as reported; grows only.
        debt_tokens: output tokens granted beyond what fitted.
        lifecycle: serialised `weir.common.v1.LifecycleRecord` for whoever settles.
        price: what its tokens cost, as in force at reserve time.
        requests: how many requests it counts as.
    """

    id: str
    request_id: str
    subject: Subject
    fingerprint: bytes
    state: State
    entries: tuple[Entry, ...]
    prompt_tokens: int
    output_tokens: int
    max_new_tokens: int
    created_ms: int
    expires_ms: int
    ttl_ms: int
    price_version: int
    dispatched: bool = False
    progress: Usage = Usage()
    debt_tokens: int = 0
    lifecycle: bytes = b""
    settlement: Settlement | None = None
    price: Price = FREE
    requests: int = 1

    @property
    def open(self) -> bool:
        """Whether it still holds something."""
        return self.state is State.RESERVED

    def expired_at(self, now_ms: int) -> bool:
        """Whether its leases have lapsed, swept or not."""
        return now_ms >= self.expires_ms
