"""Calls about limits: everything that can be known before their levels are."""

from collections.abc import Sequence

import msgspec

from weir_core.bucket import MAX_UNITS
from weir_ratelimiter.domain.adjustment import Adjustment, event_of
from weir_ratelimiter.domain.admission import Evaluation, ReserveCommand, admit
from weir_ratelimiter.domain.calendar import Window
from weir_ratelimiter.domain.change import WindowMove
from weir_ratelimiter.domain.limit import Kind, Limit
from weir_ratelimiter.domain.reservation import LONGEST_TTL_MS, Entry, Reservation
from weir_ratelimiter.store.redis import keyspace, scripts
from weir_ratelimiter.store.redis.call import Call, doubles, keys_of, plan, row, string
from weir_ratelimiter.store.redis.fields import Fields, field_of
from weir_ratelimiter.store.redis.moment import Moment
from weir_ratelimiter.store.redis.stored import template_of

UNDECIDED = Evaluation((), (), (), (), (), ())
_pack = msgspec.msgpack.Encoder().encode


def question(tenant_id: str, limits: Sequence[Limit], now_ms: int) -> Fields:
    """What to read of limits at `now_ms`."""
    return Fields.of(
        tenant_id,
        [
            Entry(limit.key, limit.kind, limit.resource, 0, _window_id(limit, now_ms))
            for limit in limits
        ],
    )


def reserve(
    command: ReserveCommand, fields: Fields, remember_ms: int, moment: Moment, *, dry_run: bool
) -> Call:
    """Reserve; `fields` are `demanded` by the command.

    Nothing is decided once the caller has given up: it asks again, and may have been refused
    meanwhile. What would be admitted then would be held by nobody until it lapses.
    """
    by_key = {limit.key: limit for limit in command.limits}
    limits = [by_key[entry.key] for entry in fields.entries]
    not_before, not_after = _span(limits, moment.now_ms)
    amounts = fields.amounts
    asks_all = all(amounts)
    asked = row(
        moment.override_ms,
        not_before,
        min(not_after, moment.until_ms),
        int(dry_run),
        command.id,
        command.ttl_ms,
        command.output_tokens,
        int(asks_all),
        remember_ms,
        int(command.subject.tenant_id == keyspace.NOBODY),
    )
    keys = keys_of(command.subject.tenant_id, command.id, fields)
    template = string(template_of(admit(command, UNDECIDED, 0)))
    others = [doubles(amounts), template]
    if not asks_all:
        held = [amount for amount in amounts if amount]
        others += (doubles(held), string(fields.names_of_asked))
    return Call(scripts.RESERVE, keys, asked, plan(fields, limits), tuple(others))


def demanded(command: ReserveCommand, now_ms: int) -> Fields:
    """What a command asks of its limits, in the windows of `now_ms`."""
    entries = [
        Entry(
            limit.key,
            limit.kind,
            limit.resource,
            command.amounts[limit.resource],
            _window_id(limit, now_ms),
        )
        for limit in command.limits
    ]
    return Fields.of(command.subject.tenant_id, entries)


def look(tenant_id: str, limits: Sequence[Limit], fields: Fields, moment: Moment) -> Call:
    """Where limits stand; `fields` are the `question`."""
    not_before, not_after = _span(limits, moment.now_ms)
    by_key = {limit.key: limit for limit in limits}
    ordered = [by_key[entry.key] for entry in fields.entries]
    asked = row(moment.override_ms, not_before, not_after)
    return Call(scripts.LOOK, keys_of(tenant_id, "", fields), asked, plan(fields, ordered))


def shorten(reservation: Reservation, moment: Moment) -> Call:
    """Bring leases that the clock has left far ahead back to their own ttl from now."""
    tenant_id = reservation.subject.tenant_id
    fields = Fields.of(tenant_id, reservation.entries)
    asked = row(moment.override_ms, reservation.id, LONGEST_TTL_MS)
    keys = keys_of(tenant_id, reservation.id, fields)
    nothing_known = [None] * len(fields.entries)
    return Call(scripts.SHORTEN, keys, asked, plan(fields, nothing_known))


def seed(hash_key: str, moves: Sequence[WindowMove], moment: Moment, *, at_least: bool) -> Call:
    """Seed windows of one hash."""
    asked = row(
        moment.override_ms,
        [field_of(move.key, Kind.WINDOW, move.window) for move in moves],
        [move.count.used for move in moves],
        [move.count.held for move in moves],
        [field_of(move.key, Kind.WINDOW) + "@" for move in moves],
        int(at_least),
    )
    return Call(scripts.SEED, (hash_key,), asked)


def adjust(adjustment: Adjustment, place: str, remember_ms: int, moment: Moment) -> Call:
    """Adjust one limit; that it was is written down in the place of the tenant `place`."""
    limit, tenant_id = adjustment.limit, adjustment.subject.tenant_id
    window = _window_id(limit, moment.now_ms)
    asked = row(
        moment.override_ms,
        *_span([limit], moment.now_ms),
        remember_ms,
        adjustment.units,
        field_of(limit.key, limit.kind, window),
        limit.kind,
        limit.capacity,
        limit.shape.refill,
        limit.shape.period_ms,
    )
    keys = (
        keyspace.hash_of(tenant_id, limit.key),
        keyspace.grant_key(place, tenant_id, adjustment.id),
        keyspace.outbox_key(keyspace.shard_of(place)),
    )
    template = _pack(event_of(adjustment, 0, 0))
    return Call(scripts.ADJUST, keys, asked, others=(template,))


def _window_id(limit: Limit, now_ms: int) -> str:
    return "" if limit.calendar is None else limit.calendar.window(now_ms).id


def _span(limits: Sequence[Limit], now_ms: int) -> tuple[int, int]:
    """The time in which all windows that are current at `now_ms` are so."""
    windows: list[Window] = [
        limit.calendar.window(now_ms) for limit in limits if limit.calendar is not None
    ]
    return (
        max((window.start_ms for window in windows), default=0),
        min((window.end_ms for window in windows), default=MAX_UNITS),
    )
