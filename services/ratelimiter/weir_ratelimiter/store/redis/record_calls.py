"""Calls about one reservation: whatever its record says."""

import msgspec

from weir_core.bucket import MAX_UNITS
from weir_ratelimiter.domain.extension import Extension
from weir_ratelimiter.domain.settlement import Report
from weir_ratelimiter.domain.usage import Usage
from weir_ratelimiter.record import Record
from weir_ratelimiter.store.base import Limits
from weir_ratelimiter.store.redis import keyspace, scripts
from weir_ratelimiter.store.redis.call import Call, keys_of
from weir_ratelimiter.store.redis.fields import Fields, shapes
from weir_ratelimiter.store.redis.moment import Moment
from weir_ratelimiter.store.redis.stored import template_of

_SETTLE, _REFUND, _EXPIRE = 1, 2, 3
_pack = msgspec.msgpack.Encoder().encode


class Memory(msgspec.Struct, frozen=True, gc=False):
    """What a store knows of reservations that the server does not.

    Attributes:
        epoch: id of the server's state.
        remember_ms: how long the end of a reservation is remembered.
    """

    epoch: str
    remember_ms: int


def settle(
    record: Record, report: Report, fields: Fields, limits: Limits, memory: Memory, moment: Moment
) -> Call:
    """Settle."""
    usage = report.usage or Usage()
    told = (
        int(report.usage is not None),
        usage.prompt_tokens,
        usage.cached_prompt_tokens,
        usage.completion_tokens,
        int(report.quality),
        report.outcome,
    )
    return _end(_SETTLE, record, told, report.lifecycle, fields, limits, memory, moment)


def refund(
    record: Record,
    outcome: int,
    lifecycle: bytes,
    fields: Fields,
    limits: Limits,
    memory: Memory,
    moment: Moment,
) -> Call:
    """Refund."""
    told = (0, 0, 0, 0, 0, outcome)
    return _end(_REFUND, record, told, lifecycle, fields, limits, memory, moment)


def expire(record: Record, fields: Fields, limits: Limits, memory: Memory, moment: Moment) -> Call:
    """The sweep of one reservation."""
    return _end(_EXPIRE, record, (0, 0, 0, 0, 0, 0), b"", fields, limits, memory, moment)


def extend(
    record: Record,
    extension: Extension,
    fields: Fields,
    limits: Limits,
    memory: Memory,
    moment: Moment,
) -> Call:
    """Extend."""
    present = fields.limits(limits)
    progress = extension.progress
    arguments = (
        moment.override_ms,
        record.id,
        (
            progress.prompt_tokens,
            progress.cached_prompt_tokens,
            progress.completion_tokens,
            min(extension.additional_tokens, MAX_UNITS),
            int(extension.dispatched),
            int(extension.may_owe),
            extension.ttl_ms or 0,
            record.max_new_tokens,
        ),
        memory.remember_ms,
        int(record.epoch == memory.epoch),
        _from_record(record, fields),
        record.price.output_nanos,
        fields.own,
        fields.fields,
        fields.kinds,
        fields.resources,
        *shapes(present),
        [0 if limit is None else limit.max_debt for limit in present],
        [int(limit is not None and not limit.shadow) for limit in present],
    )
    keys = keys_of(record.subject.tenant_id, record.id, fields)
    template = template_of(record.rebuilt(0))
    return Call(
        scripts.EXTEND, keys, (_pack(arguments), template, fields.names, extension.lifecycle)
    )


def _end(
    mode: int,
    record: Record,
    told: tuple[int, ...],
    lifecycle: bytes,
    fields: Fields,
    limits: Limits,
    memory: Memory,
    moment: Moment,
) -> Call:
    price = record.price
    arguments = (
        moment.override_ms,
        mode,
        record.id,
        told,
        memory.remember_ms,
        int(record.epoch == memory.epoch),
        _from_record(record, fields),
        (price.input_nanos, price.cached_input_nanos, price.output_nanos),
        fields.own,
        fields.fields,
        fields.kinds,
        fields.resources,
        *shapes(fields.limits(limits)),
        int(record.subject.tenant_id != keyspace.NOBODY),
    )
    keys = keys_of(record.subject.tenant_id, record.id, fields)
    template = template_of(record.rebuilt(0))
    return Call(scripts.END, keys, (_pack(arguments), template, fields.names, lifecycle))


def _from_record(record: Record, fields: Fields) -> tuple[int | list[int], ...]:
    return (
        record.created_ms,
        record.ttl_ms,
        record.output_tokens,
        record.prompt_tokens,
        record.requests,
        fields.amounts,
    )
