"""Messages of the ledger service from and to its rows."""

import base64
import binascii
import hashlib
from collections.abc import Mapping, Sequence
from uuid import UUID

import msgspec
from google.protobuf.timestamp_pb2 import Timestamp

from weir.common.v1 import lifecycle_pb2, subject_pb2, usage_pb2
from weir.ratelimiter.v1 import ledger_service_pb2 as pb
from weir_core.errors import InvalidField
from weir_ratelimiter.domain.subject import check_id
from weir_ratelimiter.ledger.filters import RowFilter
from weir_ratelimiter.ledger.row import LedgerRow
from weir_ratelimiter.ledger.sums import EVER_MS, GROUPS, Group, Sums
from weir_ratelimiter.wire import timestamp

_DEFAULT_PAGE = 100
_LARGEST_PAGE = 1_000
_LARGEST_SUM = 2**63 - 1
_IDS = ("tenant_id", "api_key_id", "model", "request_id")
_UNIQUE_TIMES = {"hour", "day"}

FORMAT_NAMES: Mapping[int, str] = {
    pb.EXPORT_FORMAT_JSONL: "jsonl",
    pb.EXPORT_FORMAT_CSV: "csv",
    pb.EXPORT_FORMAT_CLOUDEVENTS: "cloudevents",
}


class PageToken(msgspec.Struct, frozen=True, array_like=True):
    """Where a list goes on: after a row, for the same filter."""

    after_id: str
    filter_digest: bytes


def filter_from(message: pb.RowFilter) -> RowFilter:
    """Which rows are asked for.

    Raises:
        InvalidField: an id or a time is malformed, or the end is not after the start.
    """
    ids = {name: getattr(message, name) for name in _IDS}
    for name, value in ids.items():
        if value:
            check_id(f"filter.{name}", value)
    from_ms = _ms("filter.from_time", message.from_time) if message.HasField("from_time") else 0
    to_ms = _ms("filter.to_time", message.to_time) if message.HasField("to_time") else EVER_MS
    if to_ms <= from_ms:
        raise InvalidField("filter.to_time", message.to_time.ToJsonString(), "after from_time")
    return RowFilter(**ids, from_ms=from_ms, to_ms=to_ms)


def page_size_from(message: pb.ListRowsRequest) -> int:
    """How many rows a page has.

    Raises:
        InvalidField: it is out of bounds.
    """
    size = message.page_size or _DEFAULT_PAGE
    if not 1 <= size <= _LARGEST_PAGE:
        raise InvalidField("page_size", size, f"1 to {_LARGEST_PAGE}, or 0 for {_DEFAULT_PAGE}")
    return size


def page_token_to(after_id: str, wanted: RowFilter) -> str:
    """A token for the page after a row."""
    token = msgspec.msgpack.encode(PageToken(after_id, _digest(wanted)))
    return base64.urlsafe_b64encode(token).decode()


def after_id_from(token: str, wanted: RowFilter) -> str:
    """The row that a page comes after.

    Raises:
        InvalidField: the token is none of ours, or of another filter.
    """
    bound = "empty, or the next_page_token of a list with the same filter"
    try:
        decoded = msgspec.msgpack.decode(base64.urlsafe_b64decode(token), type=PageToken)
        after_id = str(UUID(decoded.after_id))
    except (binascii.Error, msgspec.MsgspecError, ValueError):
        raise InvalidField("page_token", token, bound) from None
    if decoded.filter_digest != _digest(wanted):
        raise InvalidField("page_token", token, bound)
    return after_id


def group_by_from(message: pb.GetUsageRequest) -> Sequence[str]:
    """What sums are told apart by.

    Raises:
        InvalidField: a name is unknown, said twice, or hours are asked for beside days.
    """
    names = list(message.group_by)
    known = len(set(names)) == len(names) and set(names) <= set(GROUPS)
    if not known or set(names) >= _UNIQUE_TIMES:
        bound = f"some of {', '.join(GROUPS)}, each once, and not both hour and day"
        raise InvalidField("group_by", names, bound)
    return names


def row_to(row: LedgerRow) -> pb.LedgerRow:
    """A row."""
    return pb.LedgerRow(
        id=row.id,
        kind=pb.LedgerRowKind.ValueType(row.kind),
        reservation_id=row.reservation_id,
        request_id=row.request_id,
        subject=subject_pb2.Subject(
            tenant_id=row.tenant_id,
            user_id=row.user_id,
            api_key_id=row.api_key_id,
            model=row.model,
            model_version=row.model_version,
        ),
        usage=_usage(row),
        usage_quality=usage_pb2.UsageQuality.ValueType(row.usage_quality),
        outcome=lifecycle_pb2.Outcome.ValueType(row.outcome),
        price_version=row.price_version,
        input_nanos=row.input_nanos,
        cached_input_nanos=row.cached_input_nanos,
        output_nanos=row.output_nanos,
        amount_nanos=row.amount_nanos,
        reserve_time=timestamp(row.reserve_ms),
        settle_time=timestamp(row.settle_ms),
        worker_id=row.worker_id,
        ttft_ms=row.ttft_ms,
        latency_ms=row.latency_ms,
        trace_id=row.trace_id,
        limit_id=row.limit_id,
        units=row.units,
        note=row.note,
    )


def sum_to(by: Sequence[str], group: Group, sums: Sums) -> pb.UsageSum:
    """Sums of one group.

    Raises:
        InvalidField: one of them does not fit 64 bits.
    """
    largest = max(map(abs, msgspec.structs.astuple(sums)))
    if max(largest, sums.prompt_tokens + sums.completion_tokens) > _LARGEST_SUM:
        raise InvalidField("filter", "a sum beyond 2^63-1", "narrower, or group by more")
    message = pb.UsageSum(requests=sums.charges, usage=_usage(sums), amount_nanos=sums.amount_nanos)
    for name, value in zip(by, group, strict=True):
        if name in _UNIQUE_TIMES:
            message.from_time.CopyFrom(timestamp(value))
        else:
            setattr(message, f"{name}_id" if name != "model" else name, value)
    return message


def _usage(counted: LedgerRow | Sums) -> usage_pb2.Usage:
    return usage_pb2.Usage(
        prompt_tokens=counted.prompt_tokens,
        cached_prompt_tokens=counted.cached_prompt_tokens,
        completion_tokens=counted.completion_tokens,
        total_tokens=counted.prompt_tokens + counted.completion_tokens,
    )


def _digest(wanted: RowFilter) -> bytes:
    return hashlib.blake2b(msgspec.msgpack.encode(wanted), digest_size=8).digest()


def _ms(field: str, time: Timestamp) -> int:
    # Rows are of whole milliseconds: those at or after a moment within one are after it.
    ms = time.seconds * 1_000 - -time.nanos // 1_000_000
    if not 0 <= ms <= EVER_MS:
        raise InvalidField(field, time.seconds, "a time after 1970")
    return ms
