"""What the shared store still has to be told of one reservation."""

import msgspec

from weir_ratelimiter.domain.extension import Extension
from weir_ratelimiter.domain.reservation import Reservation
from weir_ratelimiter.domain.settlement import Report
from weir_ratelimiter.domain.usage import Usage
from weir_ratelimiter.record import Record


class Refund(msgspec.Struct, frozen=True, array_like=True, tag="refund"):
    """It was given back."""

    outcome: int
    lifecycle: bytes


class Settle(msgspec.Struct, frozen=True, array_like=True, tag="settle"):
    """It was charged."""

    report: Report


class Pending(msgspec.Struct, frozen=True, array_like=True):
    """A reservation that was made, extended or ended while the shared store was away.

    Attributes:
        record: as its caller holds it, so that a store that does not know it can rebuild it.
        heard_ms: when its caller was last heard of, Unix milliseconds.
        progress: tokens so far.
        ended: how it ended; None while it runs.
    """

    record: Record
    heard_ms: int
    dispatched: bool = False
    progress: Usage = Usage()
    lifecycle: bytes = b""
    ttl_ms: int | None = None
    ended: Settle | Refund | None = None

    @property
    def id(self) -> str:
        """Id of the reservation."""
        return self.record.id

    def extended(self, reservation: Reservation, now_ms: int) -> "Pending":
        """With the news of an extension."""
        return msgspec.structs.replace(
            self,
            heard_ms=now_ms,
            dispatched=reservation.dispatched,
            progress=reservation.progress,
            lifecycle=reservation.lifecycle,
            ttl_ms=reservation.ttl_ms,
        )

    def with_end(self, ended: Settle | Refund) -> "Pending":
        """With its end. A settlement stands; a refund gives way to what ran after all."""
        if isinstance(self.ended, Settle):
            return self
        return msgspec.structs.replace(self, ended=ended)

    def extension(self) -> Extension:
        """What tells the shared store of one that runs: a sign of life, and its progress."""
        return Extension(
            progress=self.progress,
            dispatched=self.dispatched,
            ttl_ms=self.ttl_ms,
            lifecycle=self.lifecycle,
        )
