"""Which new traces are recorded."""

from collections.abc import Sequence

from opentelemetry.sdk.trace.sampling import Decision, TraceIdRatioBased
from opentelemetry.trace import Link, TraceFlags


class LinkedRatio:
    """A share of them, and those that come from a recorded one: work that it left for later.

    Args:
        ratio: 0 to 1.
    """

    def __init__(self, ratio: float) -> None:
        self._ratio = TraceIdRatioBased(ratio)

    def takes(self, trace_id: int, name: str, links: Sequence[Link]) -> bool:
        """Decides about one."""
        if any(link.context.trace_flags & TraceFlags.SAMPLED for link in links):
            return True
        decision = self._ratio.should_sample(None, trace_id, name).decision
        return decision is Decision.RECORD_AND_SAMPLE
