"""The reasons for which Tokenweir refuses or fails, and what each one means on the wire.

One table feeds gRPC, HTTP and the logs. The names are those of `weir.common.v1.ErrorReason`
without its prefix; a test holds the two together.
"""

from dataclasses import dataclass
from enum import StrEnum


class Reason(StrEnum):
    """Machine-readable cause of a refusal or failure (`ErrorInfo.reason`)."""

    INVALID_FIELD = "INVALID_FIELD"
    UNSUPPORTED_FIELD = "UNSUPPORTED_FIELD"
    CONTEXT_LENGTH_EXCEEDED = "CONTEXT_LENGTH_EXCEEDED"
    REQUEST_TOO_LARGE = "REQUEST_TOO_LARGE"
    BODY_TOO_LARGE = "BODY_TOO_LARGE"
    TEMPLATE_FAILED = "TEMPLATE_FAILED"
    API_KEY_MISSING = "API_KEY_MISSING"
    API_KEY_INVALID = "API_KEY_INVALID"
    API_KEY_EXPIRED = "API_KEY_EXPIRED"
    API_KEY_REVOKED = "API_KEY_REVOKED"
    TENANT_SUSPENDED = "TENANT_SUSPENDED"
    PERMISSION_DENIED = "PERMISSION_DENIED"
    MODEL_NOT_FOUND = "MODEL_NOT_FOUND"
    NOT_FOUND = "NOT_FOUND"
    RATE_LIMIT_EXCEEDED = "RATE_LIMIT_EXCEEDED"
    TOKEN_LIMIT_EXCEEDED = "TOKEN_LIMIT_EXCEEDED"
    CONCURRENCY_LIMIT_EXCEEDED = "CONCURRENCY_LIMIT_EXCEEDED"
    BUDGET_EXHAUSTED = "BUDGET_EXHAUSTED"
    QUOTA_STOPPED = "QUOTA_STOPPED"
    QUEUE_FULL = "QUEUE_FULL"
    QUEUE_TIMEOUT = "QUEUE_TIMEOUT"
    LIMITER_UNAVAILABLE = "LIMITER_UNAVAILABLE"
    SCHEDULER_UNAVAILABLE = "SCHEDULER_UNAVAILABLE"
    DIRECTORY_UNAVAILABLE = "DIRECTORY_UNAVAILABLE"
    NO_WORKER = "NO_WORKER"
    WORKER_LOST = "WORKER_LOST"
    DRAINING = "DRAINING"
    STALE_ATTEMPT = "STALE_ATTEMPT"
    GRANT_INVALID = "GRANT_INVALID"
    RESERVATION_NOT_FOUND = "RESERVATION_NOT_FOUND"
    RESERVATION_CONFLICT = "RESERVATION_CONFLICT"
    RESERVATION_EXPIRED = "RESERVATION_EXPIRED"
    RESERVATION_RECORD_INVALID = "RESERVATION_RECORD_INVALID"
    IDEMPOTENCY_CONFLICT = "IDEMPOTENCY_CONFLICT"
    IDEMPOTENCY_IN_PROGRESS = "IDEMPOTENCY_IN_PROGRESS"
    CANCELLED = "CANCELLED"
    DEADLINE_EXCEEDED = "DEADLINE_EXCEEDED"
    NOT_BUILT_YET = "NOT_BUILT_YET"
    ENGINE_FAILED = "ENGINE_FAILED"
    INTERNAL = "INTERNAL"
    OVERLOADED = "OVERLOADED"
    NOT_LEADER = "NOT_LEADER"
    PREEMPTED = "PREEMPTED"
    VERSION_CONFLICT = "VERSION_CONFLICT"
    ADMINISTRATION_OFF = "ADMINISTRATION_OFF"
    STATE_UNAVAILABLE = "STATE_UNAVAILABLE"
    STATE_OFF = "STATE_OFF"
    SESSION_NOT_FOUND = "SESSION_NOT_FOUND"
    JOB_NOT_FOUND = "JOB_NOT_FOUND"
    FILE_NOT_FOUND = "FILE_NOT_FOUND"
    BATCH_NOT_FOUND = "BATCH_NOT_FOUND"
    RESPONSE_NOT_FOUND = "RESPONSE_NOT_FOUND"
    STATE_CONFLICT = "STATE_CONFLICT"
    ENQUEUED_TOKENS_EXCEEDED = "ENQUEUED_TOKENS_EXCEEDED"
    EMBEDDINGS_NOT_OFFERED = "EMBEDDINGS_NOT_OFFERED"
    STORAGE_EXCEEDED = "STORAGE_EXCEEDED"


@dataclass(frozen=True, slots=True)
class WireCode:
    """How one reason looks to clients: gRPC status name, HTTP status, OpenAI `type` and `code`."""

    grpc: str
    http: int
    type: str
    code: str


_INVALID = "invalid_request_error"
_SERVER = "server_error"

WIRE_CODES: dict[Reason, WireCode] = {
    Reason.INVALID_FIELD: WireCode("INVALID_ARGUMENT", 400, _INVALID, "invalid_value"),
    Reason.UNSUPPORTED_FIELD: WireCode("INVALID_ARGUMENT", 400, _INVALID, "unsupported_value"),
    Reason.CONTEXT_LENGTH_EXCEEDED: WireCode(
        "INVALID_ARGUMENT", 400, _INVALID, "context_length_exceeded"
    ),
    Reason.REQUEST_TOO_LARGE: WireCode("INVALID_ARGUMENT", 400, _INVALID, "request_too_large"),
    Reason.BODY_TOO_LARGE: WireCode("INVALID_ARGUMENT", 413, _INVALID, "body_too_large"),
    Reason.TEMPLATE_FAILED: WireCode("INVALID_ARGUMENT", 400, _INVALID, "template_failed"),
    Reason.API_KEY_MISSING: WireCode("UNAUTHENTICATED", 401, _INVALID, "invalid_api_key"),
    Reason.API_KEY_INVALID: WireCode("UNAUTHENTICATED", 401, _INVALID, "invalid_api_key"),
    Reason.API_KEY_EXPIRED: WireCode("UNAUTHENTICATED", 401, _INVALID, "invalid_api_key"),
    Reason.API_KEY_REVOKED: WireCode("UNAUTHENTICATED", 401, _INVALID, "invalid_api_key"),
    Reason.TENANT_SUSPENDED: WireCode("PERMISSION_DENIED", 403, _INVALID, "account_suspended"),
    Reason.PERMISSION_DENIED: WireCode("PERMISSION_DENIED", 403, _INVALID, "permission_denied"),
    Reason.MODEL_NOT_FOUND: WireCode("NOT_FOUND", 404, _INVALID, "model_not_found"),
    Reason.NOT_FOUND: WireCode("NOT_FOUND", 404, _INVALID, "not_found"),
    Reason.RATE_LIMIT_EXCEEDED: WireCode(
        "RESOURCE_EXHAUSTED", 429, "requests", "rate_limit_exceeded"
    ),
    Reason.TOKEN_LIMIT_EXCEEDED: WireCode(
        "RESOURCE_EXHAUSTED", 429, "tokens", "rate_limit_exceeded"
    ),
    Reason.CONCURRENCY_LIMIT_EXCEEDED: WireCode(
        "RESOURCE_EXHAUSTED", 429, "requests", "concurrency_limit_exceeded"
    ),
    Reason.BUDGET_EXHAUSTED: WireCode(
        "RESOURCE_EXHAUSTED", 429, "insufficient_quota", "insufficient_quota"
    ),
    Reason.QUOTA_STOPPED: WireCode("RESOURCE_EXHAUSTED", 429, "tokens", "quota_stopped"),
    Reason.QUEUE_FULL: WireCode("UNAVAILABLE", 503, _SERVER, "overloaded"),
    Reason.QUEUE_TIMEOUT: WireCode("UNAVAILABLE", 503, _SERVER, "overloaded"),
    Reason.LIMITER_UNAVAILABLE: WireCode("UNAVAILABLE", 503, _SERVER, "limiter_unavailable"),
    Reason.SCHEDULER_UNAVAILABLE: WireCode("UNAVAILABLE", 503, _SERVER, "scheduler_unavailable"),
    Reason.DIRECTORY_UNAVAILABLE: WireCode("UNAVAILABLE", 503, _SERVER, "directory_unavailable"),
    Reason.NO_WORKER: WireCode("UNAVAILABLE", 503, _SERVER, "no_worker"),
    Reason.WORKER_LOST: WireCode("UNAVAILABLE", 503, _SERVER, "worker_lost"),
    Reason.DRAINING: WireCode("UNAVAILABLE", 503, _SERVER, "draining"),
    Reason.STALE_ATTEMPT: WireCode("ABORTED", 409, _SERVER, "stale_attempt"),
    Reason.GRANT_INVALID: WireCode("PERMISSION_DENIED", 403, _SERVER, "grant_invalid"),
    Reason.RESERVATION_NOT_FOUND: WireCode("NOT_FOUND", 404, _INVALID, "reservation_not_found"),
    Reason.RESERVATION_CONFLICT: WireCode("ALREADY_EXISTS", 409, _INVALID, "reservation_conflict"),
    Reason.RESERVATION_EXPIRED: WireCode(
        "FAILED_PRECONDITION", 400, _INVALID, "reservation_expired"
    ),
    Reason.RESERVATION_RECORD_INVALID: WireCode(
        "INVALID_ARGUMENT", 400, _INVALID, "reservation_record_invalid"
    ),
    Reason.IDEMPOTENCY_CONFLICT: WireCode(
        "FAILED_PRECONDITION", 422, "idempotency_error", "idempotency_conflict"
    ),
    Reason.IDEMPOTENCY_IN_PROGRESS: WireCode(
        "ABORTED", 409, "idempotency_error", "idempotency_in_progress"
    ),
    Reason.CANCELLED: WireCode("CANCELLED", 499, _INVALID, "cancelled"),
    Reason.DEADLINE_EXCEEDED: WireCode("DEADLINE_EXCEEDED", 504, _SERVER, "deadline_exceeded"),
    Reason.NOT_BUILT_YET: WireCode("UNIMPLEMENTED", 501, _SERVER, "not_built_yet"),
    Reason.ENGINE_FAILED: WireCode("INTERNAL", 500, _SERVER, "engine_failed"),
    Reason.INTERNAL: WireCode("INTERNAL", 500, _SERVER, "internal_error"),
    Reason.OVERLOADED: WireCode("UNAVAILABLE", 503, _SERVER, "overloaded"),
    Reason.NOT_LEADER: WireCode("UNAVAILABLE", 503, _SERVER, "not_leader"),
    Reason.PREEMPTED: WireCode("UNAVAILABLE", 503, _SERVER, "preempted"),
    Reason.VERSION_CONFLICT: WireCode("ABORTED", 409, _INVALID, "version_conflict"),
    Reason.ADMINISTRATION_OFF: WireCode("UNIMPLEMENTED", 501, _INVALID, "administration_off"),
    Reason.STATE_UNAVAILABLE: WireCode("UNAVAILABLE", 503, _SERVER, "state_unavailable"),
    Reason.STATE_OFF: WireCode("UNIMPLEMENTED", 501, _INVALID, "state_off"),
    Reason.SESSION_NOT_FOUND: WireCode("NOT_FOUND", 404, _INVALID, "session_not_found"),
    Reason.JOB_NOT_FOUND: WireCode("NOT_FOUND", 404, _INVALID, "job_not_found"),
    Reason.FILE_NOT_FOUND: WireCode("NOT_FOUND", 404, _INVALID, "file_not_found"),
    Reason.BATCH_NOT_FOUND: WireCode("NOT_FOUND", 404, _INVALID, "batch_not_found"),
    Reason.RESPONSE_NOT_FOUND: WireCode("NOT_FOUND", 404, _INVALID, "response_not_found"),
    Reason.STATE_CONFLICT: WireCode("FAILED_PRECONDITION", 400, _INVALID, "state_conflict"),
    Reason.ENQUEUED_TOKENS_EXCEEDED: WireCode(
        "RESOURCE_EXHAUSTED", 429, "tokens", "enqueued_tokens_exceeded"
    ),
    Reason.EMBEDDINGS_NOT_OFFERED: WireCode(
        "INVALID_ARGUMENT", 400, _INVALID, "embeddings_not_offered"
    ),
    Reason.STORAGE_EXCEEDED: WireCode(
        "RESOURCE_EXHAUSTED", 429, "insufficient_quota", "storage_exceeded"
    ),
}
