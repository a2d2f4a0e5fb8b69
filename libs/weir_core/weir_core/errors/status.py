"""Domain exceptions to and from gRPC: `google.rpc.Status` with rich details, and back.

ErrorInfo is always there; QuotaFailure and `weir.common.v1.Refusal` for limits, BadRequest for
a field, RetryInfo when a time is known; each at most once (AIP-193).
"""

from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2 as details_pb2
from google.rpc.status_pb2 import Status
from grpc import StatusCode
from grpc.aio import AioRpcError

from weir.common.v1.refusal_pb2 import Refusal
from weir.common.v1.refusal_pb2 import Violation as WireViolation
from weir_core.errors.exceptions import InvalidField, LimitExceeded, Violation, WeirError
from weir_core.errors.reasons import Reason
from weir_core.errors.retry import is_futile

ERROR_DOMAIN = "tokenweir"
STATUS_DETAILS = "grpc-status-details-bin"
RETRY_PUSHBACK = "grpc-retry-pushback-ms"

# Trailers over the peer's metadata limit reach the client as another error altogether.
_MAX_MESSAGE = 1_000
_MAX_VALUE = 256
_MAX_VIOLATIONS = 16

_REASONS = frozenset(reason.value for reason in Reason)

_BY_CODE = {
    StatusCode.CANCELLED: Reason.CANCELLED,
    StatusCode.DEADLINE_EXCEEDED: Reason.DEADLINE_EXCEEDED,
    StatusCode.UNIMPLEMENTED: Reason.NOT_BUILT_YET,
}


def grpc_code(exc: WeirError) -> StatusCode:
    """The gRPC status code of an exception."""
    return StatusCode[exc.wire.grpc]


def to_status(exc: WeirError) -> Status:
    """The status of an exception, its details packed; over-long texts are cut."""
    status = Status(code=_number(grpc_code(exc)), message=_cut(exc.message, _MAX_MESSAGE))
    status.details.add().Pack(_error_info(exc))
    if isinstance(exc, LimitExceeded):
        status.details.add().Pack(_quota_failure(exc))
        status.details.add().Pack(to_refusal(exc))
    if exc.field is not None:
        status.details.add().Pack(_bad_request(exc, exc.field))
    if exc.retry_after_s is not None:
        status.details.add().Pack(_retry_info(exc.retry_after_s))
    return status


def to_trailers(exc: WeirError) -> tuple[tuple[str, str | bytes], ...]:
    """Trailing metadata: the details, and the push-back that generic clients obey.

    A negative push-back tells them not to retry.
    """
    trailers: list[tuple[str, str | bytes]] = [(STATUS_DETAILS, to_status(exc).SerializeToString())]
    if is_futile(exc):
        trailers.append((RETRY_PUSHBACK, "-1"))
    elif exc.retry_after_s is not None:
        trailers.append((RETRY_PUSHBACK, str(max(1, round(exc.retry_after_s * 1_000)))))
    return tuple(trailers)


# What grpc says by itself when no answer came.
_TRANSPORT = {
    StatusCode.UNAVAILABLE: "cannot be reached",
    StatusCode.DEADLINE_EXCEEDED: "did not answer in time",
}


def from_rpc_error(err: AioRpcError, *, unavailable_as: Reason, peer: str = "") -> WeirError:
    """The exception that the peer raised, or one for what the transport reports.

    Args:
        err: what the call raised.
        unavailable_as: reason when the peer could not be reached or gave no details, such as
            `Reason.LIMITER_UNAVAILABLE`.
        peer: name of the service for the message; addresses stay out of it.
    """
    status = _details_of(err)
    if status is not None:
        told = from_status(status)
        if told is not None:
            return told
    code, text = err.code(), err.details() or ""
    if code is StatusCode.RESOURCE_EXHAUSTED and "larger than max" in text:
        return WeirError(Reason.BODY_TOO_LARGE, _cut(text, _MAX_MESSAGE))
    reason = _BY_CODE.get(code, unavailable_as)
    happened = _TRANSPORT.get(code, f"answered {code.name} without details")
    return WeirError(reason, f"{peer or 'a service'} {happened}")


def from_status(status: Status) -> WeirError | None:
    """The exception that `to_status` was given; None when the status is not one of ours."""
    info = details_pb2.ErrorInfo()
    if not _unpack(status, info) or info.domain != ERROR_DOMAIN or info.reason not in _REASONS:
        return None
    bad = details_pb2.BadRequest()
    field = bad.field_violations[0].field if _unpack(status, bad) else None
    exc = _rebuilt(status, Reason(info.reason), dict(info.metadata), field)
    exc.field = field
    exc.message = status.message
    exc.args = (status.message,)
    exc.metadata = dict(info.metadata)
    return exc


def to_refusal(exc: LimitExceeded) -> Refusal:
    """The account of a refusal as a message; at most the first 16 violations."""
    return Refusal(violations=[_to_wire(v) for v in exc.violations[:_MAX_VIOLATIONS]])


def from_refusal(refusal: Refusal) -> list[Violation]:
    """The violations of an account."""
    return [_from_wire(violation) for violation in refusal.violations]


def _rebuilt(
    status: Status, reason: Reason, metadata: dict[str, str], field: str | None
) -> WeirError:
    retry, refusal = details_pb2.RetryInfo(), Refusal()
    retry_after_s = _seconds(retry.retry_delay) if _unpack(status, retry) else None
    if _unpack(status, refusal):
        violations = from_refusal(refusal)
        return LimitExceeded(reason, status.message, violations, retry_after_s=retry_after_s)
    if reason is Reason.INVALID_FIELD and field is not None and "bound" in metadata:
        return InvalidField(field, metadata.get("value", ""), metadata["bound"])
    return WeirError(reason, status.message, retry_after_s=retry_after_s)


def _error_info(exc: WeirError) -> details_pb2.ErrorInfo:
    metadata = {key: _cut(value, _MAX_VALUE) for key, value in exc.metadata.items()}
    return details_pb2.ErrorInfo(reason=exc.reason, domain=ERROR_DOMAIN, metadata=metadata)


def _bad_request(exc: WeirError, field: str) -> details_pb2.BadRequest:
    violation = details_pb2.BadRequest.FieldViolation(
        field=field, description=_cut(exc.message, _MAX_VALUE), reason=exc.reason
    )
    return details_pb2.BadRequest(field_violations=[violation])


def _quota_failure(exc: LimitExceeded) -> details_pb2.QuotaFailure:
    return details_pb2.QuotaFailure(
        violations=[
            details_pb2.QuotaFailure.Violation(
                subject=violation.layer,
                description=_cut(violation.knob, _MAX_VALUE),
                api_service=ERROR_DOMAIN,
                quota_metric=violation.resource,
                quota_id=violation.limit_id,
                quota_dimensions={"limit_type": violation.limit_type},
                quota_value=violation.limit or 0,
            )
            for violation in exc.violations[:_MAX_VIOLATIONS]
        ]
    )


def _to_wire(violation: Violation) -> WireViolation:
    wire = WireViolation(
        limit_id=violation.limit_id,
        limit_type=violation.limit_type,
        resource=violation.resource,
        layer=violation.layer,
        limit=violation.limit,
        used=violation.used,
        requested=violation.requested,
        knob=_cut(violation.knob, _MAX_VALUE),
        allowance=violation.allowance,
    )
    if violation.reset_time_ms:
        wire.reset_time.FromMilliseconds(violation.reset_time_ms)
    return wire


def _from_wire(wire: WireViolation) -> Violation:
    return Violation(
        limit_id=wire.limit_id,
        limit_type=wire.limit_type,
        resource=wire.resource,
        layer=wire.layer,
        limit=wire.limit if wire.HasField("limit") else None,
        used=wire.used if wire.HasField("used") else None,
        requested=wire.requested,
        reset_time_ms=wire.reset_time.ToMilliseconds() if wire.HasField("reset_time") else 0,
        knob=wire.knob,
        allowance=wire.allowance,
    )


def _retry_info(seconds: float) -> details_pb2.RetryInfo:
    delay = Duration()
    delay.FromMilliseconds(max(1, round(seconds * 1_000)))
    return details_pb2.RetryInfo(retry_delay=delay)


def _seconds(delay: Duration) -> float:
    return delay.ToMilliseconds() / 1_000


def _details_of(err: AioRpcError) -> Status | None:
    for key, value in err.trailing_metadata() or ():
        if key == STATUS_DETAILS and isinstance(value, bytes):
            try:
                return Status.FromString(value)
            except DecodeError:
                return None
    return None


def _unpack(
    status: Status,
    into: details_pb2.ErrorInfo | details_pb2.RetryInfo | details_pb2.BadRequest | Refusal,
) -> bool:
    return any(detail.Is(into.DESCRIPTOR) and detail.Unpack(into) for detail in status.details)


def _number(code: StatusCode) -> int:
    value = code.value
    return int(value[0])


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 3]}..."
