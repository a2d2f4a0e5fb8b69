"""Values as the functions keep them: rows of doubles, and MessagePack in a row without a frame."""

import struct
from collections.abc import Sequence
from itertools import accumulate, pairwise

import msgspec

from weir_core.bucket import BucketShape, BucketState
from weir_ratelimiter.domain.change import Bucket, Count, EventKind, LedgerEvent
from weir_ratelimiter.domain.limit import Kind
from weir_ratelimiter.domain.reservation import Reservation, Settlement, State
from weir_ratelimiter.domain.usage import Quality, Usage
from weir_ratelimiter.store.redis.fields import Fields, entries_from

_STARTS_FROM_MS = 1_700_000_000_000
"""See `leases.lua`."""

_STRING_HEADS = {0xD9: 2, 0xDA: 3, 0xDB: 5}


class _Reservation(msgspec.Struct, array_like=True, frozen=True):
    lifecycle: msgspec.Raw
    template: msgspec.Raw
    names: msgspec.Raw


class _Event(msgspec.Struct, array_like=True, frozen=True):
    template: msgspec.Raw
    lifecycle: msgspec.Raw


class _Grant(msgspec.Struct, array_like=True, frozen=True):
    at_ms: int
    template: msgspec.Raw
    given: int


class LeaseView(msgspec.Struct, frozen=True):
    """Who is in a lease set.

    Attributes:
        taken: places taken now.
        number: leases in the set, lapsed ones that still wait for the sweep included.
        ages_ms: sum of their ages.
        next_lapse_ms: when the next of them lapses, Unix milliseconds.
    """

    taken: int
    number: int
    ages_ms: int
    next_lapse_ms: int


NOBODY = LeaseView(0, 0, 0, 0)

_time_row = struct.Struct("<d")
_bucket_row = struct.Struct("<7d")
_reservation_row = struct.Struct("<12d")
_settlement_row = struct.Struct("<11d")
_window_row = struct.Struct("<2d")
_hold_row = struct.Struct("<d")
_summary_row = struct.Struct("<3d")
_lapses_row = struct.Struct("<2d")
_event_row = struct.Struct("<12d")

TIME_BYTES = _time_row.size

_ENDED_AT = _reservation_row.size + 9 * TIME_BYTES
"""Where the time is in a settlement that follows no amounts."""

_WIDTHS = {
    Kind.BUCKET: _bucket_row.size,
    Kind.LEASE: _summary_row.size,
    Kind.WINDOW: _window_row.size,
    Kind.HOLD: _hold_row.size,
}

_reservations = msgspec.msgpack.Decoder(_Reservation)
_events = msgspec.msgpack.Decoder(_Event)
_grants = msgspec.msgpack.Decoder(_Grant)
_templates = msgspec.msgpack.Decoder(Reservation)
_ledger_events = msgspec.msgpack.Decoder(LedgerEvent)


def template_of(reservation: Reservation) -> bytes:
    """What never changes of a reservation, packed. The rest is laid over it when read."""
    blank = msgspec.structs.replace(reservation, entries=(), lifecycle=b"", settlement=None)
    return msgspec.msgpack.encode(blank)


def reservation_from(value: bytes) -> Reservation:
    """A stored reservation."""
    state, created_ms, _, expires_ms, ttl_ms, output_tokens, dispatched, *done, debt_tokens, n = (
        _whole(_reservation_row, value)
    )
    at = _reservation_row.size
    amounts = [int(amount) for amount in struct.unpack_from(f"<{n}d", value, at)]
    at += 8 * n
    settlement = None
    if state != State.RESERVED:
        settlement = _settlement_from(_whole(_settlement_row, value, at))
        at += _settlement_row.size
    row = _reservations.decode(b"\x93" + value[at:])
    return msgspec.structs.replace(
        _templates.decode(_text(row.template)),
        state=State(state),
        entries=entries_from(_text(row.names), amounts),
        output_tokens=output_tokens,
        created_ms=created_ms,
        expires_ms=expires_ms,
        ttl_ms=ttl_ms,
        dispatched=bool(dispatched),
        progress=Usage(*done),
        debt_tokens=debt_tokens,
        lifecycle=_text(row.lifecycle),
        settlement=settlement,
    )


def time_from(value: bytes) -> int:
    """The time that a value begins with."""
    return _whole(_time_row, value)[0]


def ended_ms_from(value: bytes) -> int:
    """When a reservation that can change no more was ended."""
    return _whole(_time_row, value, _ENDED_AT)[0]


def event_from(value: bytes) -> LedgerEvent:
    """The event of an ended reservation."""
    kind, created_ms, *tokens, quality, outcome, settled_ms, requests = _whole(_event_row, value)
    row = _events.decode(b"\x92" + value[_event_row.size :])
    reservation = _templates.decode(_text(row.template))
    return LedgerEvent(
        reservation_id=reservation.id,
        kind=EventKind(kind),
        request_id=reservation.request_id,
        subject=reservation.subject,
        charged=Usage(*tokens[:3]),
        previous=Usage(*tokens[3:]),
        quality=Quality(quality),
        outcome=outcome,
        price_version=reservation.price_version,
        created_ms=created_ms,
        settled_ms=settled_ms,
        lifecycle=_text(row.lifecycle),
        price=reservation.price,
        requests=requests,
    )


def grant_from(value: bytes) -> LedgerEvent:
    """The event of an adjustment."""
    row = _grants.decode(b"\x93" + value)
    event = _ledger_events.decode(_text(row.template))
    return msgspec.structs.replace(
        event, created_ms=row.at_ms, settled_ms=row.at_ms, units=row.given
    )


def values_from(told: bytes | Sequence[bytes | None], fields: Fields) -> Sequence[bytes | None]:
    """Values of fields that a script told one by one, or in one piece."""
    if not isinstance(told, bytes):
        return told
    ends = list(accumulate([_WIDTHS[entry.kind] for entry in fields.entries], initial=0))
    return [told[start:end] for start, end in pairwise(ends)]


def bucket_from(value: bytes) -> Bucket:
    """A stored bucket."""
    level, parts, at_ms, _, *shape = _whole(_bucket_row, value)
    return Bucket(BucketShape(*shape), BucketState(level, parts, at_ms))


def bucket_held(value: bytes) -> int:
    """Units that open reservations hold in a stored bucket."""
    return _whole(_bucket_row, value)[3]


def units_from(value: bytes) -> int:
    """Units that open reservations have of a stored hold."""
    return _whole(_hold_row, value)[0]


def count_from(value: bytes) -> Count:
    """A stored window."""
    return Count(*_whole(_window_row, value))


def view_from(value: bytes, now_ms: int) -> LeaseView:
    """What a script told of a lease set at `now_ms`."""
    number, starts_ms, earliest_ms = _whole(_summary_row, value)
    taken, next_lapse_ms = number, earliest_ms
    if len(value) > _summary_row.size:
        taken, next_lapse_ms = _whole(_lapses_row, value, _summary_row.size)
    ages_ms = number * (now_ms - _STARTS_FROM_MS) - starts_ms
    return LeaseView(taken, number, ages_ms, next_lapse_ms)


def _settlement_from(numbers: list[int]) -> Settlement:
    prompt, cached, output, is_reported, *reported = numbers
    reported_prompt, reported_cached, reported_output, quality, outcome, at_ms, late = reported
    return Settlement(
        charged=Usage(prompt, cached, output),
        reported=Usage(reported_prompt, reported_cached, reported_output) if is_reported else None,
        quality=Quality(quality),
        outcome=outcome,
        settled_ms=at_ms,
        late=bool(late),
    )


def _whole(row: struct.Struct, value: bytes, at: int = 0) -> list[int]:
    """Numbers in a value: doubles that are whole."""
    return [int(number) for number in row.unpack_from(value, at)]


def _text(raw: msgspec.Raw) -> bytes:
    """Contents of a string: Lua has one type for text and bytes, and writes no `bin`."""
    packed = bytes(raw)
    return packed[_STRING_HEADS.get(packed[0], 1) :]
