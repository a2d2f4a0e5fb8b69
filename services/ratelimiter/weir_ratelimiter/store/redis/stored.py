"""Values as the scripts keep them, and the domain's objects: MessagePack in a row, no frame."""

import msgspec

from weir_core.bucket import BucketShape, BucketState
from weir_ratelimiter.domain.change import Bucket, Count, EventKind, LedgerEvent
from weir_ratelimiter.domain.reservation import Reservation, Settlement, State
from weir_ratelimiter.domain.usage import Quality, Usage
from weir_ratelimiter.store.redis.fields import entries_from

_STRING_HEADS = {0xD9: 2, 0xDA: 3, 0xDB: 5}


class _Reservation(msgspec.Struct, array_like=True, frozen=True):
    state: State
    created_ms: int
    acquired_ms: int
    expires_ms: int
    ttl_ms: int
    output_tokens: int
    dispatched: int
    prompt_done: int
    cached_done: int
    output_done: int
    debt_tokens: int
    amounts: list[int]
    settlement: list[int]
    lifecycle: msgspec.Raw
    template: msgspec.Raw
    names: msgspec.Raw


class _Event(msgspec.Struct, array_like=True, frozen=True):
    kind: EventKind
    template: msgspec.Raw
    created_ms: int
    charged_prompt: int
    charged_cached: int
    charged_output: int
    previous_prompt: int
    previous_cached: int
    previous_output: int
    quality: Quality
    outcome: int
    settled_ms: int
    requests: int
    lifecycle: msgspec.Raw


class _Grant(msgspec.Struct, array_like=True, frozen=True):
    at_ms: int
    template: msgspec.Raw


class _Bucket(msgspec.Struct, array_like=True, frozen=True):
    level: int
    parts: int
    at_ms: int
    held: int
    capacity: int
    refill: int
    period_ms: int


class LeaseView(msgspec.Struct, array_like=True, frozen=True):
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

_reservations = msgspec.msgpack.Decoder(_Reservation)
_events = msgspec.msgpack.Decoder(_Event)
_grants = msgspec.msgpack.Decoder(_Grant)
_buckets = msgspec.msgpack.Decoder(_Bucket)
_counts = msgspec.msgpack.Decoder(Count)
_views = msgspec.msgpack.Decoder(LeaseView)
_templates = msgspec.msgpack.Decoder(Reservation)
_ledger_events = msgspec.msgpack.Decoder(LedgerEvent)


def template_of(reservation: Reservation) -> bytes:
    """What never changes of a reservation, packed. The rest is laid over it when read."""
    blank = msgspec.structs.replace(reservation, entries=(), lifecycle=b"", settlement=None)
    return msgspec.msgpack.encode(blank)


def reservation_from(value: bytes) -> Reservation:
    """A stored reservation."""
    row = _reservations.decode(b"\xdc\x00\x10" + value)
    return msgspec.structs.replace(
        _templates.decode(_text(row.template)),
        state=row.state,
        entries=entries_from(_text(row.names), row.amounts),
        output_tokens=row.output_tokens,
        created_ms=row.created_ms,
        expires_ms=row.expires_ms,
        ttl_ms=row.ttl_ms,
        dispatched=bool(row.dispatched),
        progress=Usage(row.prompt_done, row.cached_done, row.output_done),
        debt_tokens=row.debt_tokens,
        lifecycle=_text(row.lifecycle),
        settlement=_settlement_from(row.settlement),
    )


def names_of(value: bytes) -> bytes:
    """The names of a stored reservation's entries."""
    return _text(_reservations.decode(b"\xdc\x00\x10" + value).names)


def event_from(value: bytes) -> LedgerEvent:
    """The event of an ended reservation."""
    row = _events.decode(b"\x9e" + value)
    reservation = _templates.decode(_text(row.template))
    return LedgerEvent(
        reservation_id=reservation.id,
        kind=row.kind,
        request_id=reservation.request_id,
        subject=reservation.subject,
        charged=Usage(row.charged_prompt, row.charged_cached, row.charged_output),
        previous=Usage(row.previous_prompt, row.previous_cached, row.previous_output),
        quality=row.quality,
        outcome=row.outcome,
        price_version=reservation.price_version,
        created_ms=row.created_ms,
        settled_ms=row.settled_ms,
        lifecycle=_text(row.lifecycle),
        price=reservation.price,
        requests=row.requests,
    )


def grant_from(value: bytes) -> LedgerEvent:
    """The event of an adjustment."""
    row = _grants.decode(b"\x92" + value)
    event = _ledger_events.decode(_text(row.template))
    return msgspec.structs.replace(event, created_ms=row.at_ms, settled_ms=row.at_ms)


def bucket_from(value: bytes) -> Bucket:
    """A stored bucket."""
    row = _buckets.decode(b"\x97" + value)
    shape = BucketShape(row.capacity, row.refill, row.period_ms)
    return Bucket(shape, BucketState(row.level, row.parts, row.at_ms))


def bucket_held(value: bytes) -> int:
    """Units that open reservations hold in a stored bucket."""
    return _buckets.decode(b"\x97" + value).held


def count_from(value: bytes) -> Count:
    """A stored window."""
    return _counts.decode(b"\x92" + value)


def view_from(value: bytes) -> LeaseView:
    """What a script tells of a lease set."""
    return _views.decode(b"\x94" + value)


def _settlement_from(numbers: list[int]) -> Settlement | None:
    if not numbers:
        return None
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


def _text(raw: msgspec.Raw) -> bytes:
    """Contents of a string: Lua has one type for text and bytes, and writes no `bin`."""
    packed = bytes(raw)
    return packed[_STRING_HEADS.get(packed[0], 1) :]
