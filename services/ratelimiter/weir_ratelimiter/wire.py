"""Messages of `weir.ratelimiter.v1` from and to the domain."""

from google.protobuf.timestamp_pb2 import Timestamp

from weir.common.v1 import error_reason_pb2, lifecycle_pb2, subject_pb2, usage_pb2
from weir.common.v1.lifecycle_pb2 import LifecycleRecord
from weir.ratelimiter.v1 import ratelimiter_service_pb2 as pb
from weir_core.bucket import check_units
from weir_core.errors import InvalidField, Reason
from weir_ratelimiter.ask import Ask, check_ttl
from weir_ratelimiter.domain.extension import Extension
from weir_ratelimiter.domain.reservation import Reservation
from weir_ratelimiter.domain.settlement import Report
from weir_ratelimiter.domain.subject import Subject
from weir_ratelimiter.domain.usage import Quality, Usage

_MOST_LIFECYCLE_BYTES = 16_384
_OUTCOMES = frozenset(lifecycle_pb2.Outcome.values())


def subject_from(message: subject_pb2.Subject) -> Subject:
    """A subject, unchecked."""
    return Subject(
        message.tenant_id,
        message.user_id,
        message.api_key_id,
        message.model,
        message.model_version,
    )


def ask_from(message: pb.ReserveRequest) -> Ask:
    """What Reserve is asked, unchecked."""
    return Ask(
        request_id=message.request_id,
        subject=subject_from(message.subject),
        prompt_tokens=message.prompt_tokens,
        max_new_tokens=message.max_new_tokens,
        streams=message.mode == subject_pb2.DELIVERY_MODE_STREAM,
        batch=getattr(message, "class") == subject_pb2.REQUEST_CLASS_BATCH,
        ttl_ms=message.ttl.ToMilliseconds() if message.HasField("ttl") else None,
        model_context_tokens=message.model_context_tokens,
    )


def extension_from(message: pb.Extension) -> Extension:
    """What Extend is told of one reservation.

    Raises:
        InvalidField: a number is out of bounds.
    """
    prompt_tokens = check_units("prompt_tokens", message.prompt_tokens)
    output_tokens = check_units("output_tokens", message.output_tokens)
    more = message.additional_output_tokens
    return Extension(
        progress=Usage(prompt_tokens, 0, output_tokens),
        additional_tokens=check_units("additional_output_tokens", more),
        dispatched=message.dispatched,
        ttl_ms=check_ttl(message.ttl.ToMilliseconds()) if message.HasField("ttl") else None,
        lifecycle=lifecycle_from(message.lifecycle) if message.HasField("lifecycle") else b"",
    )


def report_from(message: pb.SettleRequest) -> Report:
    """How a request ended.

    Raises:
        InvalidField: the quality is missing, or a number is out of bounds.
    """
    try:
        quality = Quality(message.usage_quality)
    except ValueError:
        bound = "EXACT, ESTIMATED or UNKNOWN"
        raise InvalidField("usage_quality", int(message.usage_quality), bound) from None
    return Report(
        usage=None if quality is Quality.UNKNOWN else usage_from(message.usage),
        quality=quality,
        outcome=outcome_from(message.outcome),
        lifecycle=lifecycle_from(message.lifecycle),
    )


def outcome_from(number: int) -> int:
    """Number of an outcome.

    Raises:
        InvalidField: there is no such outcome.
    """
    if number not in _OUTCOMES:
        raise InvalidField("outcome", number, "one of weir.common.v1.Outcome")
    return number


def usage_from(message: usage_pb2.Usage) -> Usage:
    """A usage whose numbers agree.

    Raises:
        InvalidField: a number is out of bounds, or the total is another than the sum.
    """
    usage = Usage.of(message.prompt_tokens, message.cached_prompt_tokens, message.completion_tokens)
    total = usage.prompt_tokens + usage.completion_tokens
    if message.total_tokens not in (0, total):
        raise InvalidField("usage.total_tokens", message.total_tokens, f"{total}, the sum")
    return usage


def lifecycle_from(message: LifecycleRecord) -> bytes:
    """A life-cycle record, serialised to be passed on.

    Raises:
        InvalidField: it is larger than 16 KiB.
    """
    lifecycle = message.SerializeToString()
    if len(lifecycle) > _MOST_LIFECYCLE_BYTES:
        bound = f"at most {_MOST_LIFECYCLE_BYTES} bytes"
        raise InvalidField("lifecycle", f"{len(lifecycle)} bytes", bound)
    return lifecycle


def subject_to(subject: Subject) -> subject_pb2.Subject:
    """A subject."""
    return subject_pb2.Subject(
        tenant_id=subject.tenant_id,
        user_id=subject.user_id,
        api_key_id=subject.api_key_id,
        model=subject.model,
        model_version=subject.model_version,
    )


def settlement_to(reservation: Reservation) -> pb.Settlement | None:
    """The end of a reservation, if it has ended."""
    settlement = reservation.settlement
    if settlement is None:
        return None
    charged = settlement.charged
    return pb.Settlement(
        reservation_id=reservation.id,
        state=pb.ReservationState.ValueType(reservation.state),
        charged=usage_pb2.Usage(
            prompt_tokens=charged.prompt_tokens,
            cached_prompt_tokens=charged.cached_prompt_tokens,
            completion_tokens=charged.completion_tokens,
            total_tokens=charged.prompt_tokens + charged.completion_tokens,
        ),
        usage_quality=usage_pb2.UsageQuality.ValueType(settlement.quality),
        settle_time=timestamp(settlement.settled_ms),
    )


def reservation_to(reservation: Reservation) -> pb.Reservation:
    """A reservation as an operator sees it."""
    end = reservation.settlement
    return pb.Reservation(
        reservation_id=reservation.id,
        request_id=reservation.request_id,
        subject=subject_to(reservation.subject),
        state=pb.ReservationState.ValueType(reservation.state),
        reserved_prompt_tokens=reservation.prompt_tokens,
        reserved_output_tokens=reservation.output_tokens,
        progress_output_tokens=reservation.progress.completion_tokens,
        create_time=timestamp(reservation.created_ms),
        expire_time=timestamp(reservation.expires_ms),
        settlement=settlement_to(reservation),
        amount_nanos=0 if end is None else reservation.price.cost(end.charged),
        outcome=lifecycle_pb2.Outcome.ValueType(0 if end is None else end.outcome),
    )


def mode_to(degraded: bool) -> pb.LimiterMode.ValueType:
    """How limits are enforced."""
    return pb.LIMITER_MODE_DEGRADED if degraded else pb.LIMITER_MODE_ENFORCED


def reason_to(reason: Reason) -> error_reason_pb2.ErrorReason.ValueType:
    """A reason by its number."""
    return error_reason_pb2.ErrorReason.Value(f"ERROR_REASON_{reason.value}")


def timestamp(ms: int) -> Timestamp:
    """Unix milliseconds."""
    return Timestamp(seconds=ms // 1_000, nanos=ms % 1_000 * 1_000_000)


def write_time(ms: int, into: Timestamp) -> None:
    """Unix milliseconds, into a field: half the cost of a message that is copied."""
    into.seconds = ms // 1_000
    into.nanos = ms % 1_000 * 1_000_000
