"""A trail as the account of its request."""

from weir.common.v1.lifecycle_pb2 import LifecycleRecord
from weir.common.v1.subject_pb2 import Subject
from weir.gateway.v1.insight_service_pb2 import (
    Explanation,
    RequestRefusal,
    RequestState,
    TimelineEvent,
)
from weir_core.errors import LimitExceeded, WeirError
from weir_core.errors.status import to_refusal
from weir_gateway.flow.lifecycle import record_of
from weir_gateway.flow.live_state import State
from weir_gateway.flow.messages import timestamp
from weir_gateway.flow.trail import Moment, Noted, Trail
from weir_gateway.flow.wire_reason import to_wire
from weir_gateway.insight.phases import add_phases

_WAITS = (State.RESERVING, State.QUEUED)
_ENDS = (Moment.STOPPED, Moment.REFUSED)


def explanation_of(trail: Trail, gateway_id: str) -> Explanation:
    """What this gateway itself knows of a request."""
    explanation = Explanation(
        request_id=trail.request_id,
        subject=subject_of(trail),
        state=state_of(trail),
        events=[_event(noted) for noted in trail.moments],
        gateway_id=gateway_id,
        truncated=bool(trail.left_out),
    )
    if trail.reservation_id:
        explanation.reservation.reservation_id = trail.reservation_id
    record = lifecycle_of(trail)
    if record is not None:
        explanation.lifecycle.CopyFrom(record)
    if trail.terminal is not None:
        explanation.terminal.CopyFrom(trail.terminal)
    error = end_error(trail)
    if error is not None:
        explanation.refusal.CopyFrom(_refusal(error))
    add_phases(explanation, trail.begun_us)
    return explanation


def subject_of(trail: Trail) -> Subject:
    """Whose request it is, and of which model as far as that came to be known."""
    if trail.record is not None:
        return trail.record.subject
    if trail.subject is not None:
        return trail.subject
    caller = trail.caller
    return Subject(
        tenant_id=caller.tenant_id,
        user_id=caller.user_id,
        api_key_id=caller.key_id,
        plan_id=caller.plan_id,
    )


def state_of(trail: Trail) -> "RequestState.ValueType":
    """Where the request is."""
    if trail.live is not None:
        waits = trail.live.state in _WAITS
        return RequestState.REQUEST_STATE_QUEUED if waits else RequestState.REQUEST_STATE_RUNNING
    if trail.error is not None:
        return RequestState.REQUEST_STATE_REFUSED
    return RequestState.REQUEST_STATE_ENDED


def lifecycle_of(trail: Trail) -> LifecycleRecord | None:
    """The record of an accepted request, as it is now."""
    if trail.live is not None:
        return record_of(trail.live) if trail.live.facts.accepted_us else None
    return trail.record


def end_error(trail: Trail) -> WeirError | None:
    """Why it was refused or stopped; None while it lives and when it was answered."""
    if trail.error is not None or trail.live is not None:
        return trail.error
    if trail.record is not None and not trail.record.error_reason:
        # What stopped it came too late, or was its client.
        return None
    told = (fields for _, kind, fields in reversed(trail.moments) if kind in _ENDS)
    fields = next(told, None)
    return None if fields is None else fields["error"]


def _event(noted: Noted) -> TimelineEvent:
    unix_us, kind, fields = noted
    event = TimelineEvent(time=timestamp(unix_us), kind=int(kind))  # type: ignore[arg-type]
    for name, value in (fields or {}).items():
        if name == "error":
            if value is not None:
                event.error_reason = to_wire(value.reason)
                event.message = value.message
        elif name == "error_reason":
            event.error_reason = to_wire(value)
        elif name == "queue_us":
            event.queue_time.FromMicroseconds(value)
        elif name == "degradations":
            event.degradations.extend(value)
        else:
            setattr(event, name, value)
    return event


def _refusal(error: WeirError) -> RequestRefusal:
    refusal = RequestRefusal(
        error_reason=to_wire(error.reason),
        message=error.message,
        field=error.field or "",
        metadata=error.metadata,
    )
    if error.retry_after_s is not None:
        refusal.retry_after.FromMilliseconds(round(error.retry_after_s * 1_000))
    if isinstance(error, LimitExceeded):
        refusal.violations.extend(to_refusal(error).violations)
    return refusal
