"""Calls about one reservation: whatever its record says."""

import msgspec

from weir_core.bucket import MAX_UNITS
from weir_ratelimiter.domain.extension import Extension
from weir_ratelimiter.domain.settlement import Report
from weir_ratelimiter.domain.usage import Usage
from weir_ratelimiter.record import Record
from weir_ratelimiter.store.base import Limits
from weir_ratelimiter.store.redis import keyspace, scripts
from weir_ratelimiter.store.redis.call import Call, keys_of, plan, row
from weir_ratelimiter.store.redis.fields import Fields
from weir_ratelimiter.store.redis.moment import Moment
from weir_ratelimiter.store.redis.stored import template_of

_SETTLE, _REFUND, _EXPIRE, _UNDO = 1, 2, 3, 4


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


def undo(record: Record, fields: Fields, limits: Limits, memory: Memory, moment: Moment) -> Call:
    """Give half a reservation back, unless another call counts on it."""
    nothing_kept = Memory(memory.epoch, remember_ms=0)
    return _end(_UNDO, record, (0, 0, 0, 0, 0, 0), b"", fields, limits, nothing_kept, moment)


def extend(
    record: Record,
    extension: Extension,
    fields: Fields,
    limits: Limits,
    memory: Memory,
    moment: Moment,
) -> Call:
    """Extend."""
    progress = extension.progress
    asked = row(
        moment.override_ms,
        record.id,
        memory.remember_ms,
        int(record.epoch == memory.epoch),
        record.created_ms,
        record.price.output_nanos,
        progress.prompt_tokens,
        progress.cached_prompt_tokens,
        progress.completion_tokens,
        min(extension.additional_tokens, MAX_UNITS),
        int(extension.dispatched),
        int(extension.may_owe),
        extension.ttl_ms or 0,
        record.max_new_tokens,
        extension.lifecycle,
    )
    return _call(scripts.EXTEND, asked, record, fields, limits)


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
    asked = row(
        moment.override_ms,
        mode,
        record.id,
        memory.remember_ms,
        int(record.epoch == memory.epoch),
        int(record.subject.tenant_id != keyspace.NOBODY),
        record.created_ms,
        record.prompt_tokens,
        record.requests,
        *told,
        price.input_nanos,
        price.cached_input_nanos,
        price.output_nanos,
        lifecycle,
    )
    return _call(scripts.END, asked, record, fields, limits)


def _call(function: str, asked: bytes, record: Record, fields: Fields, limits: Limits) -> Call:
    keys = keys_of(record.subject.tenant_id, record.id, fields)
    template = template_of(record.rebuilt(0))
    rebuilt = row(record.ttl_ms, record.output_tokens, fields.amounts, template)
    return Call(function, keys, asked, plan(fields, fields.limits(limits)), record=rebuilt)
