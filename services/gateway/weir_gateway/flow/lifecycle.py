"""The life-cycle record of a request, while it lives and after its end."""

from weir.common.v1.lifecycle_pb2 import LifecycleRecord, Outcome
from weir.common.v1.usage_pb2 import UsageQuality
from weir_gateway.flow.ending import Ending
from weir_gateway.flow.live_request import LiveRequest
from weir_gateway.flow.messages import timestamp
from weir_gateway.flow.wire_reason import to_wire

_NO_FAULT = (
    Outcome.OUTCOME_OK,
    Outcome.OUTCOME_CANCELLED,
    Outcome.OUTCOME_CLIENT_GONE,
)


def record_of(live: LiveRequest, ending: Ending | None = None) -> LifecycleRecord:
    """What is known now; terminal when `ending` is given.

    Each extension carries it as it is then: if this process dies, the sweep of the ratelimiter
    writes the last one to the ledger in place of the terminal record.
    """
    facts, prepared = live.facts, live.prepared
    record = LifecycleRecord(
        request_id=live.id,
        subject=prepared.subject,
        mode=prepared.mode,
        priority=prepared.priority,
        prompt_tokens_estimated=prepared.prompt_tokens,
        reserved_tokens=facts.reserved_tokens,
        worker_id=facts.worker_id,
        gpu_id=facts.gpu_id,
        attempts=facts.attempt,
        session_id=prepared.session_id,
        degradations=prepared.degradations,
        trace_id=_trace_id(live.trace.traceparent),
    )
    record.subject.model_version = live.model_version
    setattr(record, "class", prepared.request_class)
    for name, unix_us in (
        ("accepted_time", facts.accepted_us),
        ("queue_enter_time", facts.queued_us),
        ("first_token_time", facts.first_token_us),
        ("end_time", facts.ended_us),
    ):
        if unix_us:
            getattr(record, name).CopyFrom(timestamp(unix_us))
    if ending is not None:
        _close(record, ending)
    else:
        _add_progress(record, live)
    return record


def _add_progress(record: LifecycleRecord, live: LiveRequest) -> None:
    """Usage so far: the first token means that the whole prompt was computed."""
    facts, usage = live.facts, record.usage
    if facts.output_tokens:
        usage.prompt_tokens = live.prepared.prompt_tokens
        usage.cached_prompt_tokens = facts.cached_tokens
        usage.completion_tokens = facts.output_tokens
        usage.total_tokens = usage.prompt_tokens + usage.completion_tokens
    record.usage_quality = UsageQuality.USAGE_QUALITY_ESTIMATED


def _close(record: LifecycleRecord, ending: Ending) -> None:
    record.usage.CopyFrom(ending.usage)
    record.usage_quality = ending.quality
    record.outcome = ending.outcome
    record.finish_reason = ending.finish_reason
    if ending.error is not None and ending.outcome not in _NO_FAULT:
        record.error_reason = to_wire(ending.error.reason)
    terminal = ending.terminal
    if terminal is not None and terminal.HasField("prefill_start_time"):
        record.start_time.CopyFrom(terminal.prefill_start_time)


def _trace_id(traceparent: str) -> str:
    parts = traceparent.split("-")
    return parts[1] if len(parts) == 4 else ""
