"""Which new traces are recorded."""

from collections.abc import Sequence

from opentelemetry.context import Context
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, SamplingResult, TraceIdRatioBased
from opentelemetry.trace import Link, SpanKind, TraceState
from opentelemetry.util.types import Attributes


class LinkedRatio(TraceIdRatioBased):
    """A share of them, and those that come from a recorded one: work that it left for later."""

    def should_sample(
        self,
        parent_context: Context | None,
        trace_id: int,
        name: str,
        kind: SpanKind | None = None,
        attributes: Attributes | None = None,
        links: Sequence[Link] | None = None,
        trace_state: TraceState | None = None,
    ) -> SamplingResult:
        """Decides about one."""
        asked = (parent_context, trace_id, name, kind, attributes, links, trace_state)
        if any(link.context.trace_flags.sampled for link in links or ()):
            return ALWAYS_ON.should_sample(*asked)
        return super().should_sample(*asked)
