"""A batch in OpenAI's shape."""

from typing import Any

from weir_gateway.batches.batch import Batch, BatchState
from weir_gateway.openai.unix_time import unix_seconds

_ENDED_AT = {
    BatchState.COMPLETED: "completed_at",
    BatchState.FAILED: "failed_at",
    BatchState.EXPIRED: "expired_at",
    BatchState.CANCELLED: "cancelled_at",
}


def batch_json(batch: Batch) -> dict[str, Any]:
    """OpenAI's batch object."""
    ended = batch.state.ended
    times: dict[str, int | None] = dict.fromkeys(_ENDED_AT.values())
    if ended:
        times[_ENDED_AT[batch.state]] = unix_seconds(batch.ended_ms)
    return {
        "id": batch.id,
        "object": "batch",
        "endpoint": batch.endpoint,
        "model": batch.model or None,
        "errors": _errors(batch),
        "input_file_id": batch.input_file_id,
        "completion_window": "24h",
        "status": batch.state.value,
        "output_file_id": (batch.output_file_id or None) if ended else None,
        "error_file_id": (batch.error_file_id or None) if ended else None,
        "created_at": unix_seconds(batch.created_ms),
        "in_progress_at": unix_seconds(batch.in_progress_ms),
        "expires_at": unix_seconds(batch.deadline_ms),
        "finalizing_at": unix_seconds(batch.finalizing_ms),
        "cancelling_at": unix_seconds(batch.cancelling_ms),
        **times,
        "request_counts": {
            "total": batch.total,
            "completed": batch.completed,
            "failed": batch.failed,
        },
        "usage": _usage(batch) if ended and batch.total else None,
        "metadata": dict(batch.metadata) or None,
    }


def _errors(batch: Batch) -> dict[str, Any] | None:
    if not batch.errors:
        return None
    data = [
        {
            "code": error.code,
            "message": error.message,
            "param": error.param or None,
            "line": error.line or None,
        }
        for error in batch.errors
    ]
    return {"object": "list", "data": data}


def _usage(batch: Batch) -> dict[str, Any]:
    usage = batch.usage
    return {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_prompt_tokens},
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
    }
