"""Spans of work that is taken now and done later: its attempts link to them."""

from opentelemetry.trace import SpanKind

from weir_core.clock import Clock
from weir_core.telemetry import names
from weir_core.telemetry.span_context import context_from
from weir_core.telemetry.tracing import Attributes, Tracing
from weir_gateway.caller.caller import Caller
from weir_gateway.flow.origin import current_origin


class Submissions:
    """Writes them.

    Args:
        tracing: of the process.
        clock: wall time.
    """

    def __init__(self, tracing: Tracing, clock: Clock) -> None:
        self._tracing = tracing
        self._clock = clock

    def of_job(self, job_id: str, caller: Caller, model: str) -> str:
        """See `trace`."""
        attributes = {names.JOB_ID: job_id, names.GEN_AI_REQUEST_MODEL: model}
        return self.trace(names.SPAN_JOB_SUBMIT, caller.tenant_id, attributes)

    def trace(self, name: str, tenant_id: str, attributes: Attributes) -> str:
        """The `traceparent` of a span of the call that submits something, recorded or not."""
        origin, now_us = current_origin(), self._clock.now_us()
        return self._tracing.record(
            name,
            parent=context_from(origin.traceparent, origin.tracestate),
            start_us=now_us,
            end_us=now_us,
            kind=SpanKind.SERVER,
            attributes={names.TENANT_ID: tenant_id, **attributes},
        )
