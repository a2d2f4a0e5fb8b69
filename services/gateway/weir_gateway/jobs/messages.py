"""Jobs as messages of `gateway.v1`."""

from google.protobuf.timestamp_pb2 import Timestamp

from weir.gateway.v1.job_service_pb2 import Job as JobMessage
from weir.gateway.v1.job_service_pb2 import JobState as WireState
from weir_core.errors import InvalidField, Reason
from weir_gateway.flow.messages import timestamp
from weir_gateway.flow.wire_reason import to_wire
from weir_gateway.jobs.job import Job, JobState
from weir_gateway.jobs.kind import JobKinds

_TO_WIRE = {state: WireState.Value(f"JOB_STATE_{state.name}") for state in JobState}
_FROM_WIRE = {number: state for state, number in _TO_WIRE.items()}


def to_state(number: int) -> JobState | None:
    """The state that a list is to show; None for all. Raises InvalidField."""
    if number == WireState.JOB_STATE_UNSPECIFIED:
        return None
    state = _FROM_WIRE.get(number)  # type: ignore[call-overload]
    if state is None:
        raise InvalidField("state", number, f"one of {', '.join(WireState.keys()[1:])}")
    return state  # type: ignore[no-any-return]


def job_message(job: Job, kinds: JobKinds) -> JobMessage:
    """A job; the text is that of its kind's result."""
    message = JobMessage(
        job_id=job.id,
        state=_TO_WIRE[job.state],
        text=kinds.of(job.kind).text(job.result) if job.result else "",
        usage=job.usage,
        error_message=job.error_message,
        request_id=job.request_id,
        model=job.model,
        attempts=job.attempt,
    )
    if job.error_reason:
        message.error_reason = to_wire(Reason(job.error_reason))
    for field, unix_ms in (
        ("create_time", job.created_ms),
        ("start_time", job.started_ms),
        ("end_time", job.ended_ms),
        ("expire_time", job.expires_ms),
        ("deadline", job.deadline_ms),
    ):
        if unix_ms:
            getattr(message, field).CopyFrom(_timestamp(unix_ms))
    return message


def _timestamp(unix_ms: int) -> Timestamp:
    return timestamp(unix_ms * 1_000)
