"""The trace that the caller is in, where its program uses OpenTelemetry."""

from collections.abc import Callable
from typing import Any

_inject: Callable[[dict[str, str]], Any] | None
try:
    from opentelemetry.propagate import inject as _inject
except ImportError:  # An optional part: `tokenweir-client[traces]`.
    _inject = None

_CARRIED = ("traceparent", "tracestate")


def trace_metadata() -> tuple[tuple[str, str], ...]:
    """Metadata that puts a call into the trace of the current span; empty where there is none."""
    if _inject is None:
        return ()
    carrier: dict[str, str] = {}
    _inject(carrier)
    return tuple((name, carrier[name]) for name in _CARRIED if name in carrier)
