"""What the scripts answered, in the words of the domain."""

from collections.abc import Sequence

import msgspec

from weir_ratelimiter.domain.admission import ReserveCommand, admit, check_replay, evaluate
from weir_ratelimiter.domain.extension import Extension, extend
from weir_ratelimiter.domain.shortfall import Shortfall
from weir_ratelimiter.store.base import ExtendedReservation, Limits, Reserved
from weir_ratelimiter.store.limit_state import limit_state
from weir_ratelimiter.store.redis import calls, scripts, stored
from weir_ratelimiter.store.redis.fields import Fields, entries_held
from weir_ratelimiter.store.redis.levels import ReadLevels
from weir_ratelimiter.store.redis.server import Reply


def levels_of(fields: Fields, told: bytes | Sequence[bytes | None]) -> ReadLevels:
    """The levels that a script read."""
    values = stored.values_from(told, fields)
    return ReadLevels(dict(zip(fields.fields, values, strict=True)))


def reply_from(function: str, told: bytes) -> Reply:
    """The reply that a function made one string of, which is far cheaper for the server.

    That of Reserve is the time and the levels after an admission; that of End a whole end.
    """
    if function == scripts.RESERVE:
        return [b"reserved", stored.time_from(told), (), told[stored.TIME_BYTES :]]
    return [b"ended", stored.ended_ms_from(told), told]


def replayed(command: ReserveCommand, value: bytes, lapsed: int) -> Reserved:
    """A reservation that an earlier call made. Raises as `check_replay`."""
    existing = stored.reservation_from(value)
    check_replay(existing, command.fingerprint, lapsed=bool(lapsed))
    return Reserved(existing, replayed=True)


def admitted(
    command: ReserveCommand,
    fields: Fields,
    now_ms: int,
    short: Sequence[int],
    values: bytes | Sequence[bytes | None],
) -> Reserved:
    """An admission; `short` are places, from 1, of shadow limits that it did not fit in."""
    held = msgspec.structs.replace(calls.UNDECIDED, entries=entries_held(fields, short))
    reservation = admit(command, held, now_ms)
    levels = levels_of(fields, values)
    shadowed = _shadowed(command, fields, short, levels, now_ms)
    states = [limit_state(x, levels, levels.held(x.key), now_ms) for x in command.limits]
    return Reserved(reservation, (), shadowed, states=states)


def extended(
    fields: Fields,
    extension: Extension,
    limits: Limits,
    now_ms: int,
    value: bytes,
    is_in_debt: int,
    before: bytes,
    values: Sequence[bytes | None],
) -> ExtendedReservation:
    """An extension; `before` is the reservation as it was, if more output was refused."""
    reservation = stored.reservation_from(value)
    if not before:
        return ExtendedReservation(reservation, (), bool(is_in_debt))
    asked = stored.reservation_from(before)
    levels = levels_of(fields, values)
    shortfalls = extend(asked, extension, limits, levels, now_ms).shortfalls
    return ExtendedReservation(reservation, shortfalls, False)


def _shadowed(
    command: ReserveCommand, fields: Fields, short: Sequence[int], levels: ReadLevels, now_ms: int
) -> tuple[Shortfall, ...]:
    """What the shadow limits at these places, from 1, would have said."""
    if not short:
        return ()
    keys = {fields.entries[place - 1].key for place in short}
    limits = tuple([limit for limit in command.limits if limit.key in keys])
    asked = msgspec.structs.replace(command, limits=limits)
    return evaluate(asked, levels, now_ms).shadowed
