"""A job as its owner sees it."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from weir.common.v1.error_reason_pb2 import ErrorReason
from weir.common.v1.usage_pb2 import Usage
from weir.gateway.v1 import job_service_pb2 as wire
from weir_client.moments import moment


class JobState(StrEnum):
    """Where a job is in its life."""

    UNSPECIFIED = "unspecified"
    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"

    @property
    def final(self) -> bool:
        """Whether nothing comes after it."""
        return self not in (JobState.UNSPECIFIED, JobState.QUEUED, JobState.RUNNING)


@dataclass(frozen=True, slots=True)
class Job:
    """Offline work.

    Attributes:
        id: of the job.
        state: now.
        created, started, ended: in UTC; None for what has not happened.
        expires: its result is removed then.
        text: the answer, once it succeeded.
        usage: tokens, as charged.
        error_reason: name of `weir.common.v1.ErrorReason` without its prefix, or empty.
        error_message: one sentence, or empty.
        request_id: of its newest attempt, or empty.
        model: name of its model.
        attempts: so far.
        deadline: it expires if it has not ended by then; in UTC.
    """

    id: str
    state: JobState
    created: datetime | None
    started: datetime | None
    ended: datetime | None
    expires: datetime | None
    text: str
    usage: Usage
    error_reason: str
    error_message: str
    request_id: str
    model: str
    attempts: int
    deadline: datetime | None


def job_of(message: wire.Job) -> Job:
    """The job of a message; a state that this client does not know is UNSPECIFIED."""
    return Job(
        id=message.job_id,
        state=_state(message.state),
        created=moment(message, "create_time"),
        started=moment(message, "start_time"),
        ended=moment(message, "end_time"),
        expires=moment(message, "expire_time"),
        text=message.text,
        usage=message.usage,
        error_reason=_reason(message.error_reason),
        error_message=message.error_message,
        request_id=message.request_id,
        model=message.model,
        attempts=message.attempts,
        deadline=moment(message, "deadline"),
    )


def wire_state(state: JobState | None) -> "wire.JobState.ValueType":
    """A state in a request; None for all."""
    return wire.JobState.Value(f"JOB_STATE_{(state or JobState.UNSPECIFIED).name}")


def _state(state: "wire.JobState.ValueType") -> JobState:
    if state not in wire.JobState.values():
        return JobState.UNSPECIFIED
    return JobState[wire.JobState.Name(state).removeprefix("JOB_STATE_")]


def _reason(reason: "ErrorReason.ValueType") -> str:
    if not reason or reason not in ErrorReason.values():
        return ""
    return ErrorReason.Name(reason).removeprefix("ERROR_REASON_")
