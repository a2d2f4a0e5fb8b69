"""The account of a request in sentences for a person, with numbers and what to change."""

from collections.abc import Iterator

from google.protobuf.timestamp_pb2 import Timestamp

from weir.common.v1.error_reason_pb2 import ErrorReason
from weir.common.v1.lifecycle_pb2 import Outcome
from weir.common.v1.usage_pb2 import UsageQuality
from weir.gateway.v1.insight_service_pb2 import (
    EventKind,
    Explanation,
    RequestState,
    TimelineEvent,
)
from weir_core.errors.refusal import allowance, counted
from weir_gateway.insight.waits import why_and_knob

_LEAST_WAIT_S = 0.05
_WORTH_SAYING_S = 0.2
_DOES = {
    "intake": "reading and tokenising it",
    "reserve": "reserving its tokens",
    "queue": "waiting for a worker",
    "dispatch": "waiting in its worker for the first step",
    "prefill": "computing its prompt",
    "decode": "making its answer",
    "settle": "settling its account",
}


def sentences_of(explanation: Explanation) -> list[str]:
    """What a person wants to know first comes first."""
    return [
        *_head(explanation),
        *_changes(explanation),
        *_waits(explanation),
        *_moves(explanation),
        *_extensions(explanation),
        *_slowness(explanation),
        *_account(explanation),
    ]


def _head(told: Explanation) -> Iterator[str]:
    if told.state == RequestState.REQUEST_STATE_REFUSED:
        yield from _refused(told)
    elif told.state == RequestState.REQUEST_STATE_QUEUED:
        yield f"It has waited for {_since_arrival(told)} and is not running yet."
        if told.HasField("queued"):
            queued = told.queued
            why, knob = why_and_knob(queued.reason)
            yield f"Now it is number {queued.position} of its tenant's queue: {why}; {knob}."
    elif told.state == RequestState.REQUEST_STATE_RUNNING:
        record = told.lifecycle
        made = record.usage.completion_tokens
        where = f"worker {record.worker_id}, attempt {record.attempts}"
        if made:
            yield f"It runs on {where}: {made} tokens so far."
        else:
            yield f"It is at {where}: its prompt waits or is being computed there, no token yet."
    elif told.HasField("lifecycle"):
        yield from _ended(told)


def _refused(told: Explanation) -> Iterator[str]:
    refusal = told.refusal
    yield f"It was refused ({_reason(refusal.error_reason)}): {refusal.message}."
    yield "Nothing ran, and nothing is held or charged."
    if refusal.field:
        yield f"The field to change is {refusal.field}."
    if len(refusal.violations) > 1:
        yield f"{len(refusal.violations)} limits refused it; the first is the one that lasts."
    for violation in refusal.violations:
        when = violation.reset_time.ToJsonString() if violation.HasField("reset_time") else ""
        fits = f"it would have fitted from {when} on" if when else "it can never fit"
        if violation.HasField("limit"):
            used = counted(violation.used, violation.resource)
            asked = counted(violation.requested, violation.resource)
            allowed = violation.allowance or allowance(violation.limit, violation.resource)
            numbers = f"allows {allowed}, {used} were used and {asked} asked for; "
        else:
            numbers = f"of the layer {violation.layer} was at its bound; "
        yield f"Limit {violation.limit_id} {numbers}{fits}; to change: {violation.knob}."


def _ended(told: Explanation) -> Iterator[str]:
    record = told.lifecycle
    usage = record.usage
    took = _between(record.accepted_time, record.end_time)
    tokens = (
        f"{usage.prompt_tokens} prompt tokens, of them {usage.cached_prompt_tokens} from the "
        f"cache, and {usage.completion_tokens} output tokens"
    )
    name = Outcome.Name(record.outcome).removeprefix("OUTCOME_")
    if record.outcome == Outcome.OUTCOME_OK:
        first = _between(record.accepted_time, record.first_token_time)
        began = f", the first token after {first}" if first else ""
        after = f" in {took}" if took else ""
        yield f"It was answered{after}{began}: {tokens}."
        return
    after = f" after {took}" if took else ""
    yield f"It ended{after} as {name}: {tokens}."
    if told.HasField("refusal"):
        refusal = told.refusal
        yield f"The cause was {_reason(refusal.error_reason)}: {refusal.message}."
        yield from _of_the_queue(told)
    elif stopped := _last(told, EventKind.EVENT_KIND_STOPPED):
        yield f"It was stopped: {stopped.message}."


def _of_the_queue(told: Explanation) -> Iterator[str]:
    facts = told.refusal.metadata
    if "limit" in facts:
        yield f"The knob is {facts['limit']} of the {facts.get('scope', 'policy')}."
    if told.refusal.HasField("retry_after"):
        yield f"A retry was worth while after {told.refusal.retry_after.ToTimedelta()}."


def _changes(told: Explanation) -> Iterator[str]:
    for event in _all(told, EventKind.EVENT_KIND_DEGRADED):
        form = ", ".join(event.degradations)
        since = f" after {_reason(event.error_reason)}: {event.message}" if event.message else ""
        if list(event.degradations) == list(told.lifecycle.degradations):
            cause = since or " since it waited longer than degradation.max_wait_ms"
            yield (
                f"It ran in a lesser form ({form}){cause}; to change: `degradations` of the "
                "tenant's policy, or the limit."
            )
        else:
            yield f"The form {form} was tried{since}."


def _waits(told: Explanation) -> Iterator[str]:
    """A sentence for each reason, with the time that it lasted."""
    events = list(told.events)
    lasted: dict[int, float] = {}
    for at, event in enumerate(events):
        if event.kind == EventKind.EVENT_KIND_QUEUED and at + 1 < len(events):
            seconds = _seconds(event.time, events[at + 1].time)
            lasted[event.queue_reason] = lasted.get(event.queue_reason, 0.0) + seconds
    for reason, seconds in sorted(lasted.items(), key=lambda item: -item[1]):
        if seconds >= _LEAST_WAIT_S:
            why, knob = why_and_knob(reason)
            yield f"It waited {seconds:.3f} s for a worker: {why}; {knob}."


def _moves(told: Explanation) -> Iterator[str]:
    for event in told.events:
        if event.kind == EventKind.EVENT_KIND_PREEMPTED:
            yield (
                f"Attempt {event.attempt} gave its place to a more urgent request before it had "
                "sampled a token; to change: its priority, or `preemption` of the pool."
            )
        elif event.kind == EventKind.EVENT_KIND_REQUEUED:
            yield (
                f"Attempt {event.attempt} on worker {event.worker_id} ended with "
                f"{_reason(event.error_reason)} and it was queued again."
            )
    times = told.terminal.preemptions
    if times:
        again = told.terminal.usage.recomputed_tokens
        yield (
            f"Its worker ran out of KV blocks {times} times and computed {again} of its tokens "
            "again, which nobody pays for; to change: more KV memory, or fewer requests at once."
        )


def _extensions(told: Explanation) -> Iterator[str]:
    grown = _last(told, EventKind.EVENT_KIND_EXTENDED)
    if grown is not None:
        yield f"Its reservation grew to {grown.tokens} output tokens as it went on."
    refused = _last(told, EventKind.EVENT_KIND_EXTENSION_REFUSED)
    if refused is not None:
        yield f"More output was refused ({_reason(refused.error_reason)}): {refused.message}."


def _slowness(told: Explanation) -> Iterator[str]:
    spent: dict[str, float] = {}
    for phase in told.phases:
        if phase.HasField("end_time"):
            seconds = _seconds(phase.start_time, phase.end_time)
            spent[phase.name] = spent.get(phase.name, 0.0) + seconds
    total = sum(spent.values())
    if total < _WORTH_SAYING_S:
        return
    name, most = max(spent.items(), key=lambda item: item[1])
    yield f"{most / total:.0%} of its {total:.3f} s went into {_DOES[name]} ({most:.3f} s)."
    usage = told.lifecycle.usage
    computed = usage.prompt_tokens - usage.cached_prompt_tokens
    if name == "prefill" and most and computed > 0:
        yield f"That is {computed} tokens at {computed / most:.0f} tokens/s; a prefix helps."
    if name == "decode" and most and usage.completion_tokens > 1:
        pace = (usage.completion_tokens - 1) / most
        yield f"That is {usage.completion_tokens} tokens at {pace:.1f} tokens/s."


def _account(told: Explanation) -> Iterator[str]:
    if told.HasField("charge"):
        charge = told.charge
        money = counted(charge.amount_nanos, "cost")
        how = UsageQuality.Name(charge.usage_quality).removeprefix("USAGE_QUALITY_").lower()
        yield (
            f"The ledger charges {charge.usage.total_tokens} tokens and {money}, counted "
            f"{how}, at {charge.settle_time.ToJsonString()}."
        )
        if charge.outcome == Outcome.OUTCOME_EXPIRED:
            yield "Nobody reported its end: the ratelimiter's sweep settled the last progress."
    elif _last(told, EventKind.EVENT_KIND_LEFT_TO_SWEEP) is not None:
        yield (
            "Its account could not be settled in time; the ratelimiter's sweep does it when the "
            "lease ends; to change: settle_s of the gateway."
        )
    elif _unsettled(told):
        yield (
            "Its account is not closed yet: the ratelimiter has not heard, and the gateway "
            "repeats it for settle_s; then the ratelimiter's sweep does it."
        )
    elif told.HasField("reservation"):
        held = told.reservation
        tokens = held.reserved_prompt_tokens + held.reserved_output_tokens
        if told.state != RequestState.REQUEST_STATE_ENDED:
            yield f"{tokens} tokens are reserved for it now."


def _unsettled(told: Explanation) -> bool:
    """It ended at its gateway, and nobody has said so to the ratelimiter."""
    ended = _last(told, EventKind.EVENT_KIND_ENDED) is not None
    return ended and _last(told, EventKind.EVENT_KIND_SETTLED) is None


def _all(told: Explanation, kind: "EventKind.ValueType") -> Iterator[TimelineEvent]:
    return (event for event in told.events if event.kind == kind)


def _last(told: Explanation, kind: "EventKind.ValueType") -> TimelineEvent | None:
    found = list(_all(told, kind))
    return found[-1] if found else None


def _reason(number: int) -> str:
    return ErrorReason.Name(number).removeprefix("ERROR_REASON_")  # type: ignore[arg-type]


def _seconds(start: Timestamp, end: Timestamp) -> float:
    return max(0, end.ToMicroseconds() - start.ToMicroseconds()) / 1_000_000


def _between(start: Timestamp, end: Timestamp) -> str:
    """A duration; empty when one of its ends is not known."""
    if not start.seconds or not end.seconds:
        return ""
    return f"{_seconds(start, end):.3f} s"


def _since_arrival(told: Explanation) -> str:
    now = Timestamp()
    now.GetCurrentTime()
    return f"{_seconds(told.events[0].time, now):.1f} s" if told.events else "some time"
