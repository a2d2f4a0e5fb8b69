"""The one log line of a request."""

from weir.common.v1.lifecycle_pb2 import LifecycleRecord, Outcome
from weir.common.v1.sampling_pb2 import FinishReason
from weir_core.telemetry.logs import get_logger

_log = get_logger(__name__)


def log_end(record: LifecycleRecord, arrived_us: int) -> None:
    """Writes `request finished`; no prompt, no output."""
    usage = record.usage
    first_us = record.first_token_time.ToMicroseconds() if record.first_token_time.seconds else 0
    _log.info(
        "request finished",
        request_id=record.request_id,
        tenant_id=record.subject.tenant_id,
        user_id=record.subject.user_id,
        api_key_id=record.subject.api_key_id,
        model=record.subject.model,
        model_version=record.subject.model_version,
        outcome=Outcome.Name(record.outcome).removeprefix("OUTCOME_"),
        finish_reason=FinishReason.Name(record.finish_reason).removeprefix("FINISH_REASON_"),
        prompt_tokens=usage.prompt_tokens,
        cached_tokens=usage.cached_prompt_tokens,
        completion_tokens=usage.completion_tokens,
        reserved_tokens=record.reserved_tokens,
        worker_id=record.worker_id,
        attempts=record.attempts,
        first_token_ms=(first_us - arrived_us) // 1_000 if first_us else None,
        total_ms=(record.end_time.ToMicroseconds() - arrived_us) // 1_000,
    )
