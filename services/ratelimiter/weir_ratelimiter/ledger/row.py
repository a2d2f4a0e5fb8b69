"""One row of the ledger, and how an event of the account becomes one."""

from operator import attrgetter

import msgspec
from google.protobuf.message import DecodeError
from google.protobuf.timestamp_pb2 import Timestamp

from weir.common.v1.lifecycle_pb2 import LifecycleRecord
from weir_ratelimiter.domain.change import LedgerEvent
from weir_ratelimiter.ledger.tables import MEASURES

_LONGEST_ID = 128
_PRICES = ("input_nanos", "cached_input_nanos", "output_nanos")
YEAR_10000_MS = 253_402_300_800_000

# What a column holds: names, least, first beyond.
_BOUNDS = (
    (("kind", "usage_quality", "outcome"), 0, 2**15),
    (("reserve_ms", "settle_ms"), 0, YEAR_10000_MS),
    (("ttft_ms", "latency_ms"), 0, YEAR_10000_MS),
    ((*MEASURES, *_PRICES, "price_version", "units"), -(2**63), 2**63),
)


class LedgerRow(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A row, under the names of its columns; see `weir.ratelimiter.v1.LedgerRow`.

    Attributes:
        kind: number of `LedgerRowKind`.
        requests: what limits of requests were charged; signed in an adjustment, as are tokens
            and amount.
        reserve_ms, settle_ms: Unix milliseconds.
        ttft_ms, latency_ms: milliseconds from acceptance; None if unknown.
    """

    id: str
    kind: int
    tenant_id: str
    user_id: str
    api_key_id: str
    model: str
    model_version: str
    reservation_id: str
    request_id: str
    requests: int
    prompt_tokens: int
    cached_prompt_tokens: int
    completion_tokens: int
    amount_nanos: int
    usage_quality: int
    outcome: int
    price_version: int
    input_nanos: int
    cached_input_nanos: int
    output_nanos: int
    reserve_ms: int
    settle_ms: int
    ttft_ms: int | None = None
    latency_ms: int | None = None
    worker_id: str = ""
    trace_id: str = ""
    limit_id: str = ""
    units: int = 0
    note: str = ""


def row_of(event: LedgerEvent, row_id: str) -> LedgerRow:
    """The row of an event. An unreadable life-cycle record costs its latencies, not the charge.

    Raises:
        ValueError: a number is larger than a database holds.
    """
    subject, price = event.subject, event.price
    life = _lifecycle(event.lifecycle)
    row = LedgerRow(
        id=row_id,
        kind=event.kind,
        tenant_id=_text(subject.tenant_id),
        user_id=_text(subject.user_id),
        api_key_id=_text(subject.api_key_id),
        model=_text(subject.model),
        model_version=_text(subject.model_version),
        reservation_id=_text(event.reservation_id),
        request_id=_text(event.request_id),
        requests=event.requests,
        prompt_tokens=event.charged.prompt_tokens - event.previous.prompt_tokens,
        cached_prompt_tokens=event.charged.cached_prompt_tokens
        - event.previous.cached_prompt_tokens,
        completion_tokens=event.charged.completion_tokens - event.previous.completion_tokens,
        amount_nanos=event.amount_nanos,
        usage_quality=event.quality,
        outcome=event.outcome,
        price_version=event.price_version,
        input_nanos=price.input_nanos,
        cached_input_nanos=price.cached_input_nanos,
        output_nanos=price.output_nanos,
        reserve_ms=event.created_ms,
        settle_ms=event.settled_ms,
        ttft_ms=_between(life, "accepted_time", "first_token_time"),
        latency_ms=_between(life, "accepted_time", "end_time"),
        worker_id=_text(life.worker_id)[:_LONGEST_ID],
        trace_id=_text(life.trace_id)[:_LONGEST_ID],
        limit_id=_text(event.limit_id),
        units=event.units,
        note=_text(event.note),
    )
    return checked(row)


def checked(row: LedgerRow) -> LedgerRow:
    """The row, if every number of it is one that the ledger holds.

    Raises:
        ValueError: one is not.
    """
    for names, least, beyond in _BOUNDS:
        values = [value for value in attrgetter(*names)(row) if value is not None]
        if values and (min(values) < least or max(values) >= beyond):
            raise ValueError(f"one of {', '.join(names)} is not in {least} to {beyond - 1}")
    return row


def _lifecycle(serialised: bytes) -> LifecycleRecord:
    try:
        return LifecycleRecord.FromString(serialised)
    except DecodeError:
        return LifecycleRecord()


def _between(life: LifecycleRecord, start: str, end: str) -> int | None:
    if not (life.HasField(start) and life.HasField(end)):  # type: ignore[arg-type]
        return None
    elapsed = _ms(getattr(life, end)) - _ms(getattr(life, start))
    return max(0, elapsed) if elapsed < YEAR_10000_MS else None


def _ms(time: Timestamp) -> int:
    return time.seconds * 1_000 + time.nanos // 1_000_000


def storable(value: str) -> bool:
    """Whether every database holds it: PostgreSQL no NUL, UTF-8 no surrogate."""
    return _text(value) == value


def _text(value: str) -> str:
    if value.isascii() and "\0" not in value:
        return value
    # No text is worth losing a charge for.
    whole = value.encode("utf-8", "replace").decode()
    return whole.replace("\0", "\N{REPLACEMENT CHARACTER}")
