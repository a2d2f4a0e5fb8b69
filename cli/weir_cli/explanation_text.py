"""What happened to one request, told to a person: sentences, and its time as a waterfall."""

from collections.abc import Iterator

from google.protobuf.timestamp_pb2 import Timestamp

from weir.common.v1.error_reason_pb2 import ErrorReason
from weir.common.v1.lifecycle_pb2 import Outcome
from weir.gateway.v1.insight_service_pb2 import (
    EventKind,
    Explanation,
    Phase,
    RequestState,
    TimelineEvent,
)
from weir.scheduler.v1.scheduler_service_pb2 import QueueReason
from weir_cli.output import table
from weir_cli.spans import clock

_WIDTH = 40


def explanation_text(told: Explanation) -> str:
    """The whole account: who, why, when."""
    parts = [_head(told), *(["\n".join(_sentences(told))] if told.sentences else [])]
    if told.phases:
        parts.append(waterfall(told))
    if told.events:
        parts.append(_timeline(told))
    if told.missing:
        parts.append("\n".join(f"not known: {one}" for one in told.missing))
    return "\n\n".join(parts)


def waterfall(told: Explanation) -> str:
    """Each part of its time as a bar under the whole; a part that still lasts ends in `>`."""
    phases = list(told.phases)
    start_us = min(phase.start_time.ToMicroseconds() for phase in phases)
    ends = [_end_us(phase) for phase in phases]
    whole_us = max(1, max(ends) - start_us)
    rows = [("PART", "FROM", "TOOK", "", "")]
    for phase, end_us in zip(phases, ends, strict=True):
        from_us = phase.start_time.ToMicroseconds() - start_us
        bar = _bar(from_us, end_us - start_us, whole_us, open_=not phase.HasField("end_time"))
        took = end_us - start_us - from_us
        rows.append((phase.name, _ms(from_us), _ms(took), bar, phase.detail))
    return table(rows, right=(1, 2))


def _head(told: Explanation) -> str:
    state = RequestState.Name(told.state).removeprefix("REQUEST_STATE_").lower()
    subject = told.subject
    whose = [f"tenant {subject.tenant_id}"]
    whose += [f"user {subject.user_id}"] if subject.user_id else []
    whose += [f"key {subject.api_key_id}"] if subject.api_key_id else []
    whose += [f"model {subject.model}"] if subject.model else []
    lines = [f"request {told.request_id}: {state}", f"  {', '.join(whose)}"]
    if told.events:
        lines.append(f"  arrived {clock(told.events[0].time)}")
    trace_id = told.lifecycle.trace_id
    if trace_id.strip("0"):
        lines.append(f"  trace {trace_id}")
    return "\n".join(lines)


def _sentences(told: Explanation) -> Iterator[str]:
    return (f"- {sentence}" for sentence in told.sentences)


def _timeline(told: Explanation) -> str:
    first_us = told.events[0].time.ToMicroseconds()
    rows = [("AFTER", "EVENT", "")]
    for event in told.events:
        after = event.time.ToMicroseconds() - first_us
        name = EventKind.Name(event.kind).removeprefix("EVENT_KIND_").lower().replace("_", " ")
        rows.append((_ms(after), name, ", ".join(_facts(event))))
    if told.truncated:
        rows.insert(min(17, len(rows)), ("", "...", "more than are kept"))
    return table(rows, right=(0,))


def _facts(event: TimelineEvent) -> Iterator[str]:
    if event.queue_reason:
        yield QueueReason.Name(event.queue_reason).removeprefix("QUEUE_REASON_")
    if event.position:
        yield f"number {event.position}"
    if event.attempt:
        yield f"attempt {event.attempt}"
    if event.worker_id:
        yield f"worker {event.worker_id}"
    if event.HasField("queue_time"):
        yield f"after {_ms(event.queue_time.ToMicroseconds())} in the queue"
    if event.degradations:
        yield ", ".join(event.degradations)
    if event.outcome:
        yield Outcome.Name(event.outcome).removeprefix("OUTCOME_")
    if event.error_reason:
        yield ErrorReason.Name(event.error_reason).removeprefix("ERROR_REASON_")
    if event.tokens:
        yield f"{event.tokens} tokens"


def _bar(from_us: int, end_us: int, whole_us: int, *, open_: bool) -> str:
    first = min(_WIDTH - 1, from_us * _WIDTH // whole_us)
    last = max(first + 1, -(-end_us * _WIDTH // whole_us))
    length = min(last, _WIDTH) - first
    bar = "#" * (length - 1) + (">" if open_ else "#")
    return (" " * first + bar).ljust(_WIDTH)


def _end_us(phase: Phase) -> int:
    if phase.HasField("end_time"):
        return int(phase.end_time.ToMicroseconds())
    now = Timestamp()
    now.GetCurrentTime()
    return max(int(now.ToMicroseconds()), int(phase.start_time.ToMicroseconds()))


def _ms(us: int) -> str:
    return f"{us / 1_000:.1f} ms" if us < 10_000_000 else f"{us / 1_000_000:.2f} s"
