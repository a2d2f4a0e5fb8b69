"""One piece of offline work, as the database keeps it."""

from dataclasses import dataclass, field
from enum import StrEnum

from weir.common.v1.usage_pb2 import Usage


class JobState(StrEnum):
    """Life of a job (`weir.gateway.v1.JobState`): queued and running by turns, then one end."""

    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"

    @property
    def ended(self) -> bool:
        """Whether nothing changes any more."""
        return self not in (JobState.QUEUED, JobState.RUNNING)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job; times are Unix milliseconds, 0 for not yet.

    Attributes:
        id: `job_` and a UUIDv7, so that ids sort by time.
        tenant_id, user_id, api_key_id: its owner; it runs under the owner's present standing.
        kind: how `body` is read and the result written, see `JobKind`.
        model: as asked for.
        body: the request. Empty in lists, as `result` is.
        version: grows with each change.
        deadline_ms: the end of its completion window: what has not ended by then expires.
        expires_ms: it is removed after it; set when it has ended. A line is removed with its batch.
        not_before_ms: a queued job is not tried before; 0 when it is added: at once.
        attempt: number of the newest attempt; 0 before the first.
        failures: attempts that a fault of ours ended, those included whose gateway died.
        request_id: of the newest attempt, as accounts and records name it.
        cancel_ms: when its end was asked for.
        enqueued_tokens: what it counts as while it has not ended.
        batch_id, line, custom_id: of a line of a batch; empty, 0 and empty for others.
        webhook_url: called when it ends; empty for none.
        idempotency_key: empty for none.
        fingerprint: of what was submitted under that key.
        traceparent: of the span that submitted it; its attempts link there.
        result: in the form of its kind; empty unless there is one.
        usage: what is charged for it.
        error_reason: a `Reason`: why it failed, or why a queued one was put back last; or empty.
    """

    id: str
    tenant_id: str
    user_id: str
    api_key_id: str
    kind: str
    model: str
    body: bytes
    created_ms: int
    deadline_ms: int
    state: JobState = JobState.QUEUED
    version: int = 1
    started_ms: int = 0
    ended_ms: int = 0
    expires_ms: int = 0
    not_before_ms: int = 0
    attempt: int = 0
    failures: int = 0
    request_id: str = ""
    cancel_ms: int = 0
    enqueued_tokens: int = 0
    batch_id: str = ""
    line: int = 0
    custom_id: str = ""
    webhook_url: str = ""
    idempotency_key: str = ""
    fingerprint: bytes = b""
    traceparent: str = ""
    result: bytes = b""
    usage: Usage = field(default_factory=Usage)
    error_reason: str = ""
    error_message: str = ""
