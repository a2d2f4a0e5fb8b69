"""The opaque record that a caller holds for each reservation and echoes.

It carries all that the end of a reservation needs, so that Extend, Settle and Refund work even
if the store has lost its state. Signed with HMAC-SHA256 (RFC 2104) by the cluster secret: its
contents are ours, whoever carried them.
"""

import hashlib
import hmac

import msgspec

from weir_core.errors import Reason, WeirError
from weir_ratelimiter.domain.price import FREE, Price
from weir_ratelimiter.domain.reservation import Entry, Reservation, State
from weir_ratelimiter.domain.subject import Subject

_FORMAT = 1
_CONTEXT = b"weir.ratelimiter.record"
_MAC_BYTES = 32
_LONGEST = 65_536


class Record(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Contents of a record.

    Attributes:
        epoch: id of the store's state in which the reservation was made.
        entries: what was debited at reserve time, with window ids.
    """

    format: int
    epoch: str
    id: str
    request_id: str
    subject: Subject
    fingerprint: bytes
    entries: tuple[Entry, ...]
    prompt_tokens: int
    output_tokens: int
    max_new_tokens: int
    created_ms: int
    ttl_ms: int
    price_version: int
    price: Price = FREE
    requests: int = 1

    @classmethod
    def of(cls, reservation: Reservation, epoch: str) -> "Record":
        """The record of a reservation as it is now."""
        return cls(
            _FORMAT,
            epoch,
            reservation.id,
            reservation.request_id,
            reservation.subject,
            reservation.fingerprint,
            reservation.entries,
            reservation.prompt_tokens,
            reservation.output_tokens,
            reservation.max_new_tokens,
            reservation.created_ms,
            reservation.ttl_ms,
            reservation.price_version,
            reservation.price,
            reservation.requests,
        )

    def rebuilt(self, now_ms: int) -> Reservation:
        """The reservation as it was made, with new leases from `now_ms`."""
        return Reservation(
            id=self.id,
            request_id=self.request_id,
            subject=self.subject,
            fingerprint=self.fingerprint,
            state=State.RESERVED,
            entries=self.entries,
            prompt_tokens=self.prompt_tokens,
            output_tokens=self.output_tokens,
            max_new_tokens=self.max_new_tokens,
            created_ms=self.created_ms,
            expires_ms=now_ms + self.ttl_ms,
            ttl_ms=self.ttl_ms,
            price_version=self.price_version,
            price=self.price,
            requests=self.requests,
        )


class RecordSigner:
    """Writes and reads records under one cluster secret."""

    def __init__(self, secret: bytes) -> None:
        if not secret:
            raise ValueError("the cluster secret is empty")
        self._mac = hmac.new(secret, _CONTEXT, hashlib.sha256)
        self._decoder = msgspec.msgpack.Decoder(Record)

    def sign(self, reservation: Reservation, epoch: str) -> bytes:
        """The record of a reservation as it is now."""
        payload = msgspec.msgpack.encode(Record.of(reservation, epoch))
        return self._tag(payload) + payload

    def read(self, signed: bytes) -> Record:
        """Check and decode a record.

        Raises:
            WeirError: RESERVATION_RECORD_INVALID if it is not one that this cluster signed.
        """
        if not _MAC_BYTES < len(signed) <= _LONGEST:
            raise _invalid(f"it has {len(signed)} bytes")
        tag, payload = signed[:_MAC_BYTES], signed[_MAC_BYTES:]
        if not hmac.compare_digest(tag, self._tag(payload)):
            raise _invalid("its signature does not match the cluster secret")
        try:
            record = self._decoder.decode(payload)
        except msgspec.MsgspecError as error:
            raise _invalid("its format is of another release") from error
        if record.format != _FORMAT:
            raise _invalid(f"its format is {record.format}, this server reads {_FORMAT}")
        return record

    def _tag(self, payload: bytes) -> bytes:
        mac = self._mac.copy()
        mac.update(payload)
        return mac.digest()


def _invalid(why: str) -> WeirError:
    return WeirError(
        Reason.RESERVATION_RECORD_INVALID,
        f"record is not valid: {why}; echo the bytes of ReserveResponse unchanged",
        field="record",
    )
