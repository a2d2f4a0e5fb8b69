"""What a request is charged, from what is known of its newest attempt."""

from weir.common.v1.lifecycle_pb2 import TerminalRecord
from weir.common.v1.usage_pb2 import Usage, UsageQuality
from weir_gateway.flow.request_facts import RequestFacts


def usage_of(
    facts: RequestFacts, terminal: TerminalRecord | None, prompt_tokens: int
) -> tuple[Usage, "UsageQuality.ValueType"]:
    """Usage and its quality.

    The worker's record is exact unless it says otherwise. Without one: tokens that were seen
    are an estimate (a first token means that the whole prompt was computed); an attempt of which
    nothing was heard may have computed its prompt; one that never reached its worker ran nothing.
    """
    if terminal is not None:
        return terminal.usage, terminal.usage_quality or UsageQuality.USAGE_QUALITY_EXACT
    if not facts.sent:
        return Usage(), UsageQuality.USAGE_QUALITY_EXACT
    usage = Usage(
        prompt_tokens=prompt_tokens,
        cached_prompt_tokens=facts.cached_tokens,
        completion_tokens=facts.output_tokens,
        total_tokens=prompt_tokens + facts.output_tokens,
    )
    if facts.output_tokens:
        return usage, UsageQuality.USAGE_QUALITY_ESTIMATED
    return usage, UsageQuality.USAGE_QUALITY_UNKNOWN
