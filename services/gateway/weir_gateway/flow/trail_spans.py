"""What a trail adds to the trace of its request: intake, attempts, and the moments between."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from opentelemetry.trace import SpanKind

from weir_core.errors import Reason, WeirError
from weir_core.telemetry import names
from weir_core.telemetry.error_kind import ErrorKind, error_attributes, kind_of
from weir_core.telemetry.traceparent import child_of
from weir_core.telemetry.tracing import Attribute, SpanEvent, Tracing
from weir_gateway.flow.trail import Moment, Trail
from weir_gateway.intake.prepared_request import PreparedRequest

# Of a recorded request the others are spans of their own.
_EVENTS = frozenset(
    {
        Moment.DEGRADED,
        Moment.FIRST_TOKEN,
        Moment.EXTENDED,
        Moment.EXTENSION_REFUSED,
        Moment.STOPPED,
        Moment.LEFT_TO_SWEEP,
    }
)
_LEAVES = frozenset({Moment.REQUEUED, Moment.PREEMPTED, Moment.ENDED})


@dataclass(slots=True)
class _Attempt:
    """One attempt, from its dispatch until it was left or had ended."""

    number: int
    worker_id: str
    start_us: int
    end_us: int = 0
    left_for: Reason | None = None
    error: WeirError | None = field(default=None)


def write_children(
    tracing: Tracing,
    trail: Trail,
    prepared: PreparedRequest,
    root: str,
    end_us: int,
    worker_address: str,
) -> None:
    """Writes spans of what this process did for a request.

    Args:
        tracing: of the process.
        trail: of the request.
        prepared: what ran.
        root: `traceparent` of its root span, recorded or to be written.
        end_us: of the root span.
        worker_address: `host:port` of the last attempt's; empty for none.
    """
    tenant: dict[str, Attribute] = {names.TENANT_ID: prepared.subject.tenant_id}
    tracing.record_as(
        child_of(root, 0x100_0000),
        names.SPAN_INTAKE,
        parent=root,
        start_us=trail.arrived_us,
        end_us=trail.begun_us or end_us,
        attributes=tenant | {names.GEN_AI_USAGE_INPUT_TOKENS: prepared.prompt_tokens},
    )
    attempts = list(_attempts(trail))
    for attempt in attempts:
        at = _server(worker_address) if attempt is attempts[-1] else {}
        _write_attempt(tracing, attempt, tenant | at, root, end_us)


def faulted_attempt(trail: Trail) -> bool:
    """Whether an attempt was lost by a fault, even if another one answered."""
    return any(
        kind is Moment.REQUEUED and kind_of(fields["error_reason"]) is ErrorKind.FAULT
        for _, kind, fields in trail.moments
        if fields
    )


def root_events(trail: Trail, *, whole: bool) -> list[SpanEvent]:
    """Events of the root span.

    Args:
        trail: of the request.
        whole: all of them: other services told nothing of what their spans would show.
    """
    return [
        SpanEvent(kind.name.lower(), time_us, _attributes(fields or {}))
        for time_us, kind, fields in trail.moments
        if whole or kind in _EVENTS
    ]


def _write_attempt(
    tracing: Tracing, attempt: _Attempt, tenant: dict[str, Attribute], root: str, end_us: int
) -> None:
    attributes = tenant | {names.ATTEMPT: attempt.number, names.WORKER_ID: attempt.worker_id}
    failed: str | None = None
    if attempt.left_for is not None:
        failed = attempt.left_for.value
        attributes |= {names.REASON: failed, names.ERROR_TYPE: failed}
    elif attempt.error is not None:
        attributes |= error_attributes(attempt.error)
        failed = attempt.error.reason.value if kind_of(attempt.error.reason) else None
    tracing.record_as(
        child_of(root, attempt.number),
        names.SPAN_ATTEMPT,
        parent=root,
        start_us=attempt.start_us,
        end_us=attempt.end_us or end_us,
        kind=SpanKind.CLIENT,
        attributes=attributes,
        error=failed,
    )


def _server(address: str) -> dict[str, Attribute]:
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        return {}
    return {names.SERVER_ADDRESS: host, names.SERVER_PORT: int(port)}


def _attempts(trail: Trail) -> Iterator[_Attempt]:
    running: _Attempt | None = None
    for time_us, kind, fields in trail.moments:
        fields = fields or {}
        if kind is Moment.DISPATCHED:
            if running is not None:
                yield running
            running = _Attempt(fields["attempt"], fields["worker_id"], time_us)
        elif running is not None and kind is Moment.STOPPED:
            running.error = fields.get("error")
        elif running is not None and kind in _LEAVES:
            running.end_us, running.left_for = time_us, fields.get("error_reason")
            yield running
            running = None
    if running is not None:
        yield running


def _attributes(fields: dict[str, object]) -> dict[str, Attribute]:
    told: dict[str, Attribute] = {}
    for name, value in fields.items():
        if isinstance(value, WeirError):
            told |= error_attributes(value)
        elif name in _NAMED and value:
            told[_NAMED[name]] = _plain(value)
    return told


def _plain(value: object) -> Attribute:
    if isinstance(value, Reason):
        return value.value
    return list(value) if isinstance(value, tuple) else value  # type: ignore[return-value]


_NAMED = {
    "tokens": names.TOKENS,
    "attempt": names.ATTEMPT,
    "worker_id": names.WORKER_ID,
    "position": names.QUEUE_POSITION,
    "error_reason": names.REASON,
    "degradations": names.DEGRADATIONS,
}
