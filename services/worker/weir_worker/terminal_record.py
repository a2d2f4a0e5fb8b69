"""How ends become `weir.common.v1.TerminalRecord`."""

from collections.abc import Sequence

import msgspec
from google.protobuf.timestamp_pb2 import Timestamp

from weir.common.v1.error_reason_pb2 import ErrorReason
from weir.common.v1.lifecycle_pb2 import Attempt, TerminalRecord
from weir.common.v1.sampling_pb2 import ChoiceEnd
from weir.common.v1.sampling_pb2 import FinishReason as FinishReasonProto
from weir.common.v1.usage_pb2 import Usage as UsageProto
from weir.common.v1.usage_pb2 import UsageQuality
from weir.worker.v1.worker_service_pb2 import GenerationSpec
from weir_core.errors import WeirError
from weir_worker.engine.events import Failure, FinishReason, Terminal, Usage
from weir_worker.running_attempt import RunningAttempt

_FINISH = {
    reason: FinishReasonProto.Value(f"FINISH_REASON_{reason.name}") for reason in FinishReason
}


def record_of(
    terminal: Terminal, worker_id: str, choices: Sequence[Terminal] = ()
) -> TerminalRecord:
    """The record of an end that the engine reported; `choices` are those of several answers."""
    record = TerminalRecord(
        attempt=Attempt(request_id=terminal.request_id, number=terminal.attempt),
        tenant_id=terminal.tenant,
        worker_id=worker_id,
        finish_reason=_FINISH[terminal.finish_reason],
        usage=usage_of(terminal.usage),
        preemptions=terminal.preemptions,
        usage_quality=_quality(terminal),
        choices=[
            ChoiceEnd(
                finish_reason=_FINISH[end.finish_reason],
                completion_tokens=end.usage.completion_tokens,
            )
            for end in choices
        ],
    )
    if terminal.failure is not None:
        _set_failure(record, terminal.failure)
    _set_time(record.received_time, terminal.received_us)
    _set_time(record.prefill_start_time, terminal.prefill_start_us)
    _set_time(record.first_token_time, terminal.first_token_us)
    _set_time(record.end_time, terminal.end_us)
    return record


def refusal_of(
    spec: GenerationSpec, error: WeirError, *, worker_id: str, now_us: int
) -> TerminalRecord:
    """The record of a start of which nothing ran."""
    record = TerminalRecord(
        attempt=spec.attempt,
        tenant_id=spec.tenant_id,
        worker_id=worker_id,
        finish_reason=FinishReasonProto.FINISH_REASON_REJECTED,
        usage=UsageProto(),
    )
    _set_failure(record, Failure.of(error))
    _set_time(record.received_time, now_us)
    _set_time(record.end_time, now_us)
    return record


def timed(terminal: Terminal, attempt: RunningAttempt) -> Terminal:
    """A terminal with the times that were heard while the attempt ran."""
    prefill = attempt.prefill
    return msgspec.structs.replace(
        terminal,
        received_us=attempt.received_us,
        prefill_start_us=prefill.prefill_start_us if prefill else 0,
        prefill_end_us=prefill.prefill_end_us if prefill else 0,
        first_token_us=attempt.first_token_us,
    )


def usage_of(usage: Usage) -> UsageProto:
    """The usage as every account reads it."""
    return UsageProto(
        prompt_tokens=usage.prompt_tokens,
        cached_prompt_tokens=usage.cached_prompt_tokens,
        completion_tokens=usage.completion_tokens,
        total_tokens=usage.prompt_tokens + usage.completion_tokens,
        recomputed_tokens=usage.recomputed_tokens,
    )


def reason_of(record: TerminalRecord) -> str:
    """The reason of a record's failure, such as `STALE_ATTEMPT`."""
    return ErrorReason.Name(record.error_reason).removeprefix("ERROR_REASON_")


def _quality(terminal: Terminal) -> "UsageQuality.ValueType":
    if terminal.estimated:
        return UsageQuality.USAGE_QUALITY_ESTIMATED
    return UsageQuality.USAGE_QUALITY_EXACT


def _set_failure(record: TerminalRecord, failure: Failure) -> None:
    record.error_reason = ErrorReason.Value(f"ERROR_REASON_{failure.reason.name}")
    record.error_message = failure.message
    record.error_field = failure.field or ""


def _set_time(field: Timestamp, us: int) -> None:
    if us:
        field.FromMicroseconds(us)
