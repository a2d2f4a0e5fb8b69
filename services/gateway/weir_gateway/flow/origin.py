"""Where a call comes from, as its trace tells: bound by its door, read where its request begins."""

from contextvars import ContextVar
from dataclasses import dataclass

from weir_core.telemetry.span_context import current_traceparent


@dataclass(frozen=True, slots=True)
class Origin:
    """Of one call.

    Attributes:
        traceparent, tracestate: of the caller; empty begins a new trace.
        links: `traceparent` of spans that left the work, when it is done later and elsewhere.
    """

    traceparent: str = ""
    tracestate: str = ""
    links: tuple[str, ...] = ()


_current: ContextVar[Origin | None] = ContextVar("weir_origin", default=None)


def bind_origin(origin: Origin) -> None:
    """Of what this task serves from here on."""
    _current.set(origin)


def current_origin() -> Origin:
    """What was bound, or else the span of the RPC that this task serves."""
    return _current.get() or Origin(current_traceparent())
