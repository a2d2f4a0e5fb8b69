"""Requests and their accounts as the inspector gets them."""

from typing import Any

from weir.common.v1.error_reason_pb2 import ErrorReason
from weir.common.v1.lifecycle_pb2 import Outcome
from weir.common.v1.refusal_pb2 import Violation
from weir.gateway.v1.insight_service_pb2 import (
    EventKind,
    Explanation,
    Phase,
    RequestRefusal,
    RequestState,
    RequestSummary,
    TimelineEvent,
)
from weir_gateway.console.forms.moments import amount, between_s, duration_s, moment, word
from weir_gateway.console.forms.queue_json import reason_text, reason_word


def summary_json(one: RequestSummary) -> dict[str, Any]:
    """One request in a line."""
    known = bool(one.completion_tokens or one.HasField("first_token_after"))
    return {
        **_subject(one),
        "state": _state(one.state),
        "outcome": _outcome(one.outcome),
        "reason": _error(one.error_reason) or _queue_reason(one),
        "arrival_time": moment(one, "arrive_time"),
        "end_time": moment(one, "end_time"),
        "duration_s": between_s(one, "arrive_time", "end_time"),
        "ttft_s": duration_s(one, "first_token_after"),
        "queue_s": duration_s(one, "queue_time"),
        "prompt_tokens": one.prompt_tokens or None,
        "cached_tokens": one.cached_prompt_tokens if known else None,
        "output_tokens": one.completion_tokens if known else None,
        "worker": one.worker_id or None,
        "attempts": one.attempts,
        "degradations": list(one.degradations),
        "trace_id": None,
    }


def explanation_json(told: Explanation) -> dict[str, Any]:
    """The whole account of one request."""
    return {
        "summary": _summary_of(told),
        "explanation": list(told.sentences),
        "phases": [_phase_json(phase) for phase in told.phases],
        "events": [_event_json(event) for event in told.events],
        "refusal": _refusal_json(told.refusal) if told.HasField("refusal") else None,
        "charge": _charge_json(told) if told.HasField("charge") else None,
        "missing": list(told.missing),
        "truncated": told.truncated,
    }


def _summary_of(told: Explanation) -> dict[str, Any]:
    life = told.lifecycle
    first = told.events[0] if told.events else None
    accepted = moment(life, "accepted_time")
    refused = told.state == RequestState.REQUEST_STATE_REFUSED
    last = told.events[-1] if told.events and refused else None
    return {
        **_subject(told),
        "state": _state(told.state),
        "outcome": _outcome(life.outcome),
        "reason": _error(told.refusal.error_reason) or _error(life.error_reason),
        "arrival_time": moment(first, "time") if first is not None else accepted,
        "end_time": moment(life, "end_time") or (moment(last, "time") if last else None),
        "duration_s": between_s(life, "accepted_time", "end_time"),
        "ttft_s": between_s(life, "accepted_time", "first_token_time"),
        "queue_s": between_s(life, "queue_enter_time", "start_time"),
        "prompt_tokens": life.prompt_tokens_estimated or None,
        "cached_tokens": life.usage.cached_prompt_tokens if life.HasField("usage") else None,
        "output_tokens": life.usage.completion_tokens if life.HasField("usage") else None,
        "worker": life.worker_id or None,
        "attempts": life.attempts,
        "degradations": list(life.degradations),
        "trace_id": life.trace_id or None,
    }


def _subject(one: RequestSummary | Explanation) -> dict[str, Any]:
    return {
        "request_id": one.request_id,
        "tenant": one.subject.tenant_id,
        "user": one.subject.user_id,
        "key": one.subject.api_key_id,
        "model": one.subject.model,
    }


def _phase_json(phase: Phase) -> dict[str, Any]:
    return {
        "name": phase.name,
        "start_time": moment(phase, "start_time"),
        "end_time": moment(phase, "end_time"),
        "duration_s": between_s(phase, "start_time", "end_time"),
        "detail": phase.detail,
    }


def _event_json(event: TimelineEvent) -> dict[str, Any]:
    detail = {
        "reason": reason_word(event.queue_reason) if event.queue_reason else "",
        "text": reason_text(reason_word(event.queue_reason)) if event.queue_reason else "",
        "position": str(event.position or ""),
        "worker": event.worker_id,
        "attempt": str(event.attempt or ""),
        "queue_s": str(duration_s(event, "queue_time") or ""),
        "error": _error(event.error_reason) or "",
        "message": event.message,
        "tokens": str(event.tokens or ""),
        "outcome": _outcome(event.outcome) or "",
        "degradations": ", ".join(event.degradations),
    }
    return {
        "time": moment(event, "time"),
        "kind": (word(EventKind, event.kind, "EVENT_KIND_") or "unknown").lower(),
        "detail": {name: value for name, value in detail.items() if value},
    }


def _refusal_json(refusal: RequestRefusal) -> dict[str, Any]:
    return {
        "reason": _error(refusal.error_reason),
        "message": refusal.message,
        "field": refusal.field or None,
        "retry_after_s": duration_s(refusal, "retry_after"),
        "limits": [_violation_json(one) for one in refusal.violations],
        "metadata": dict(refusal.metadata),
    }


def _violation_json(one: Violation) -> dict[str, Any]:
    return {
        "limit_id": one.limit_id,
        "limit_type": one.limit_type,
        "resource": one.resource,
        "layer": one.layer,
        "limit": one.limit if one.HasField("limit") else None,
        "used": one.used if one.HasField("used") else None,
        "requested": one.requested,
        "reset_time": moment(one, "reset_time"),
        "knob": one.knob,
        "allowance": one.allowance or None,
    }


def _charge_json(told: Explanation) -> dict[str, Any]:
    charge, usage = told.charge, told.charge.usage
    return {
        "prompt_tokens": usage.prompt_tokens,
        "cached_prompt_tokens": usage.cached_prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.total_tokens,
        "amount": amount(charge.amount_nanos),
        "settle_time": moment(charge, "settle_time"),
    }


def _queue_reason(one: RequestSummary) -> str | None:
    return reason_word(one.queue_reason) if one.queue_reason else None


def _state(state: int) -> str:
    return (word(RequestState, state, "REQUEST_STATE_") or "unknown").lower()


def _outcome(outcome: int) -> str | None:
    name = word(Outcome, outcome, "OUTCOME_")
    return name.lower() if name else None


def _error(reason: int) -> str | None:
    return word(ErrorReason, reason, "ERROR_REASON_")
