"""The time of a request in parts: what a waterfall shows."""

from collections.abc import Iterator

from weir.gateway.v1.insight_service_pb2 import EventKind, Explanation, Phase, TimelineEvent
from weir.scheduler.v1.scheduler_service_pb2 import QueueReason
from weir_gateway.flow.messages import timestamp

# What a moment of a kind begins; those that begin nothing are within a part, or end the last.
_BEGIN = {
    EventKind.EVENT_KIND_ARRIVED: "intake",
    EventKind.EVENT_KIND_ENQUEUED: "queue",
    EventKind.EVENT_KIND_REQUEUED: "queue",
    EventKind.EVENT_KIND_PREEMPTED: "queue",
    EventKind.EVENT_KIND_DISPATCHED: "dispatch",
    EventKind.EVENT_KIND_FIRST_TOKEN: "decode",
    EventKind.EVENT_KIND_ENDED: "settle",
}
_END = (
    EventKind.EVENT_KIND_SETTLED,
    EventKind.EVENT_KIND_LEFT_TO_SWEEP,
    EventKind.EVENT_KIND_REFUSED,
)


def add_phases(explanation: Explanation, begun_us: int) -> None:
    """Adds the parts of an account that has its events.

    Args:
        explanation: gets them.
        begun_us: when its reservation began, Unix microseconds; 0: it did not.
    """
    phases: list[Phase] = []
    for name, event in _beginnings(explanation, begun_us):
        if phases and not phases[-1].HasField("end_time"):
            phases[-1].end_time.CopyFrom(event.time)
        if name and not (phases and name == phases[-1].name == "queue"):
            phases.append(Phase(name=name, start_time=event.time, detail=_detail(event)))
        elif name:
            phases[-1].ClearField("end_time")
        elif event.kind == EventKind.EVENT_KIND_QUEUED and phases:
            phases[-1].ClearField("end_time")
            phases[-1].detail = _with(phases[-1].detail, _reason(event))
    explanation.phases.extend(phases)


def _beginnings(explanation: Explanation, begun_us: int) -> Iterator[tuple[str, TimelineEvent]]:
    """Every moment that begins a part, or ends one, or says why one takes long."""
    started = explanation.lifecycle.start_time if explanation.HasField("lifecycle") else None
    computing = started is not None and started.seconds > 0
    reserving = bool(begun_us)
    for event in explanation.events:
        us = event.time.ToMicroseconds()
        if reserving and us >= begun_us and event.kind != EventKind.EVENT_KIND_ARRIVED:
            reserving = False
            yield "reserve", TimelineEvent(time=timestamp(begun_us))
        if computing and started is not None and us >= started.ToMicroseconds():
            computing = False
            yield "prefill", TimelineEvent(time=started, worker_id=explanation.lifecycle.worker_id)
        name = _BEGIN.get(event.kind, "")
        if name or event.kind in _END or event.kind == EventKind.EVENT_KIND_QUEUED:
            yield name, event


def _detail(event: TimelineEvent) -> str:
    return f"worker {event.worker_id}" if event.worker_id else ""


def _reason(event: TimelineEvent) -> str:
    return QueueReason.Name(event.queue_reason).removeprefix("QUEUE_REASON_")


def _with(detail: str, more: str) -> str:
    return f"{detail}, {more}" if detail else more
