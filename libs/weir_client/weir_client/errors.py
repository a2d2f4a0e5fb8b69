"""What a call raises: one class per gRPC status family, with the server's full account."""

from collections.abc import Iterable, Sequence

import grpc
from google.protobuf.any_pb2 import Any
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2 as details_pb2
from google.rpc.status_pb2 import Status

from weir.common.v1.refusal_pb2 import Refusal, Violation

_STATUS_DETAILS = "grpc-status-details-bin"
_REQUEST_ID = "x-request-id"
_PUSHBACK = "grpc-retry-pushback-ms"


class WeirClientError(Exception):
    """A call that failed.

    Attributes:
        code: gRPC status.
        reason: name of `weir.common.v1.ErrorReason` without its prefix; empty when the
            failure is the transport's.
        message: one sentence for a person.
        field: path of the request field to blame, or empty.
        retry_after_s: seconds after which a retry may succeed; None when the server named none.
        futile: whether the server told not to retry.
        violations: the limits that refused, empty unless it is a LimitExceeded.
        limit: the binding one of them, or None.
        request_id: id to quote to the operator, or empty.
    """

    def __init__(
        self,
        code: grpc.StatusCode,
        message: str,
        *,
        reason: str = "",
        field: str = "",
        retry_after_s: float | None = None,
        futile: bool = False,
        violations: Sequence[Violation] = (),
        request_id: str = "",
    ) -> None:
        super().__init__(f"{reason or code.name}: {message}")
        self.code = code
        self.message = message
        self.reason = reason
        self.field = field
        self.retry_after_s = retry_after_s
        self.futile = futile
        self.violations = tuple(violations)
        self.limit = self.violations[0] if self.violations else None
        self.request_id = request_id


class InvalidRequest(WeirClientError):
    """The request is wrong and will be wrong again; `field` names what to change."""


class AuthenticationError(WeirClientError):
    """No key, or a key that is unknown, expired or revoked."""


class PermissionDenied(WeirClientError):
    """The key may not do this, or its tenant is suspended."""


class NotFound(WeirClientError):
    """No such model or object for this tenant."""


class ConflictError(WeirClientError):
    """Another request holds the id or idempotency key, or changed the object meanwhile."""


class LimitExceeded(WeirClientError):
    """A limit refused: `limit` is the binding one of `violations`, `retry_after_s` says when to
    try again.
    """


class Unavailable(WeirClientError):
    """Overloaded, draining, or not reached."""


class DeadlineExceeded(WeirClientError):
    """The time allowed for the call ran out."""


class CallCancelled(WeirClientError):
    """The call was cancelled."""


class NotBuiltYet(WeirClientError):
    """The RPC is part of the contract, but this server does not have it."""


class ServerError(WeirClientError):
    """A fault of the server."""


_CLASSES: dict[grpc.StatusCode, type[WeirClientError]] = {
    grpc.StatusCode.INVALID_ARGUMENT: InvalidRequest,
    grpc.StatusCode.FAILED_PRECONDITION: InvalidRequest,
    grpc.StatusCode.OUT_OF_RANGE: InvalidRequest,
    grpc.StatusCode.UNAUTHENTICATED: AuthenticationError,
    grpc.StatusCode.PERMISSION_DENIED: PermissionDenied,
    grpc.StatusCode.NOT_FOUND: NotFound,
    grpc.StatusCode.ALREADY_EXISTS: ConflictError,
    grpc.StatusCode.ABORTED: ConflictError,
    grpc.StatusCode.RESOURCE_EXHAUSTED: LimitExceeded,
    grpc.StatusCode.UNAVAILABLE: Unavailable,
    grpc.StatusCode.DEADLINE_EXCEEDED: DeadlineExceeded,
    grpc.StatusCode.CANCELLED: CallCancelled,
    grpc.StatusCode.UNIMPLEMENTED: NotBuiltYet,
}


def from_rpc_error(err: grpc.aio.AioRpcError) -> WeirClientError:
    """The typed exception of what a call raised, with the details that the server sent."""
    info, retry = details_pb2.ErrorInfo(), details_pb2.RetryInfo()
    bad, refusal = details_pb2.BadRequest(), Refusal()
    for detail in _details(err):
        for message in (info, retry, bad, refusal):
            if detail.Is(message.DESCRIPTOR):
                detail.Unpack(message)
    pushback_ms = _pushback_ms(err)
    return _CLASSES.get(err.code(), ServerError)(
        err.code(),
        err.details() or "no details",
        reason=info.reason,
        field=bad.field_violations[0].field if bad.field_violations else "",
        retry_after_s=_retry_after_s(retry, pushback_ms),
        futile=pushback_ms is not None and pushback_ms < 0,
        violations=refusal.violations,
        request_id=info.metadata.get("request_id", "") or _request_id(err),
    )


def _details(err: grpc.aio.AioRpcError) -> Iterable[Any]:
    for key, value in err.trailing_metadata() or ():
        if key == _STATUS_DETAILS and isinstance(value, bytes):
            try:
                return list(Status.FromString(value).details)
            except DecodeError:
                return ()
    return ()


def _request_id(err: grpc.aio.AioRpcError) -> str:
    for metadata in (err.trailing_metadata(), err.initial_metadata()):
        for key, value in metadata or ():
            if key == _REQUEST_ID and isinstance(value, str):
                return value
    return ""


def _pushback_ms(err: grpc.aio.AioRpcError) -> int | None:
    """What a gRPC client is told to wait; negative for "do not retry"."""
    for key, value in err.trailing_metadata() or ():
        if key == _PUSHBACK:
            try:
                return int(value)
            except ValueError:
                # gRPC's own rule for what cannot be read.
                return -1
    return None


def _retry_after_s(retry: details_pb2.RetryInfo, pushback_ms: int | None) -> float | None:
    if retry.HasField("retry_delay"):
        return float(retry.retry_delay.ToMilliseconds()) / 1_000
    if pushback_ms is not None and pushback_ms >= 0:
        return pushback_ms / 1_000
    return None
