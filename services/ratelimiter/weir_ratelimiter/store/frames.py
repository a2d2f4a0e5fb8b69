"""The journal's format: a header line, then frames of length, CRC-32 and MessagePack.

A file begins with a snapshot (`Meta`, rows, `End`), after which every decision appends one
`Change`. A file without its `End` was never finished and does not count.
"""

import struct
import zlib
from collections.abc import Iterator

import msgspec

from weir_ratelimiter.domain.change import Bucket, Change, Count, LedgerEvent
from weir_ratelimiter.domain.reservation import Reservation

FORMAT = 2
HEADER = b"weir-ratelimiter-journal %d\n" % FORMAT
_MAGIC = HEADER[: HEADER.index(b" ") + 1]
_PREFIX = struct.Struct("<II")
# How MessagePack writes the tags of what is appended behind a snapshot.
_APPENDED = tuple(msgspec.msgpack.encode(tag) for tag in ("change", "acknowledged"))


class Meta(msgspec.Struct, frozen=True, array_like=True, tag="meta"):
    """First frame: what the snapshot is of."""

    epoch: str
    taken_ms: int
    next_sequence: int
    forgotten_upto_ms: int


class BucketRow(msgspec.Struct, frozen=True, array_like=True, tag="bucket"):
    """A bucket that was not full."""

    key: str
    bucket: Bucket


class WindowRow(msgspec.Struct, frozen=True, array_like=True, tag="window"):
    """One window of one limit."""

    key: str
    window: str
    count: Count


class LeaseRow(msgspec.Struct, frozen=True, array_like=True, tag="lease"):
    """A place in a lease set, Unix milliseconds."""

    key: str
    holder: str
    acquired_ms: int
    expires_ms: int


class GrantRow(msgspec.Struct, frozen=True, array_like=True, tag="grant"):
    """An adjustment that is remembered."""

    event: LedgerEvent


class ReservationRow(msgspec.Struct, frozen=True, array_like=True, tag="reservation"):
    """A reservation, open or remembered."""

    reservation: Reservation


class EventRow(msgspec.Struct, frozen=True, array_like=True, tag="event"):
    """An event that no ledger had acknowledged."""

    sequence: int
    event: LedgerEvent


class Acknowledged(msgspec.Struct, frozen=True, array_like=True, tag="acknowledged"):
    """The ledger has these events."""

    sequences: tuple[int, ...]


class End(msgspec.Struct, frozen=True, array_like=True, tag="end"):
    """Last frame of the snapshot."""

    rows: int


Row = BucketRow | WindowRow | ReservationRow | LeaseRow | GrantRow | EventRow
Frame = Meta | Row | End | Change | Acknowledged

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Frame] = msgspec.msgpack.Decoder(Frame)


class JournalCorrupt(Exception):
    """A journal is damaged where no crash of its writer can have damaged it."""


def encode(frame: Frame) -> bytes:
    """One frame as bytes."""
    payload = _encoder.encode(frame)
    return _PREFIX.pack(len(payload), zlib.crc32(payload)) + payload


def decode(content: bytes, name: str) -> Iterator[tuple[int, Frame]]:
    """Frames of a file with the offset after each.

    Ends before a torn tail, as a crash or a power cut leaves it: a frame that is cut short or
    has a wrong checksum, with no whole frame behind it.

    Raises:
        JournalCorrupt: another format, or a damaged frame with more frames behind it.
    """
    if not content.startswith(HEADER):
        raise _wrong_header(content, name)
    offset = len(HEADER)
    while (payload := _payload_at(content, offset)) is not None:
        end = offset + _PREFIX.size + len(payload)
        try:
            frame = _decoder.decode(payload)
        except msgspec.MsgspecError as error:
            raise JournalCorrupt(f"{name}: frame at byte {offset} is not readable") from error
        yield end, frame
        offset = end
    if _frame_follows(content, offset):
        raise JournalCorrupt(
            f"{name}: frame at byte {offset} is damaged and others follow; restore the file, or "
            "move it away to start with an empty account"
        )


def _payload_at(content: bytes, offset: int) -> bytes | None:
    start = offset + _PREFIX.size
    if start > len(content):
        return None
    length, checksum = _PREFIX.unpack_from(content, offset)
    payload = content[start : start + length]
    if length == 0 or len(payload) < length or zlib.crc32(payload) != checksum:
        return None
    return payload


def _frame_follows(content: bytes, offset: int) -> bool:
    """Whether any whole frame that a decision appends begins after `offset`."""
    for tag in _APPENDED:
        at = content.find(tag, offset)
        while at >= 0:
            # The tag stands behind the prefix and the one byte of the payload's array.
            if _payload_at(content, at - 1 - _PREFIX.size) is not None:
                return True
            at = content.find(tag, at + 1)
    return False


def _wrong_header(content: bytes, name: str) -> JournalCorrupt:
    if content.startswith(_MAGIC):
        found = content[len(_MAGIC) :].split(b"\n", 1)[0][:20].decode("ascii", "replace")
        return JournalCorrupt(f"{name} has format {found}, this release reads {FORMAT}")
    return JournalCorrupt(f"{name} is not a journal of the ratelimiter")
