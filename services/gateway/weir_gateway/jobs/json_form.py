"""Jobs as JSON."""

from typing import Any

import orjson

from weir_core.errors import Reason, WeirError
from weir_core.errors.openai import to_body
from weir_gateway.jobs.job import Job
from weir_gateway.jobs.kind import JobKinds
from weir_gateway.openai.answer_format import usage_json
from weir_gateway.openai.unix_time import unix_seconds

ENDPOINTS = {"/v1/chat/completions": "chat", "/v1/completions": "completion"}
_ENDPOINT_OF = {kind: endpoint for endpoint, kind in ENDPOINTS.items()}


def job_json(job: Job, kinds: JobKinds) -> dict[str, Any]:
    """A job; `response` is the whole answer of its endpoint, `text` that of a native job."""
    value: dict[str, Any] = {
        "id": job.id,
        "object": "job",
        "status": job.state.value,
        **_endpoint(job),
        "model": job.model,
        "created_at": unix_seconds(job.created_ms),
        "started_at": unix_seconds(job.started_ms),
        "ended_at": unix_seconds(job.ended_ms),
        "deadline_at": unix_seconds(job.deadline_ms),
        "expires_at": unix_seconds(job.expires_ms),
        "request_id": job.request_id or None,
        "attempts": job.attempt,
        "usage": usage_json(job.usage) if job.state.ended else None,
        "error": _error(job),
    }
    if job.result and job.kind in _ENDPOINT_OF:
        value["response"] = orjson.loads(job.result)
    elif job.result:
        value["text"] = kinds.of(job.kind).text(job.result)
    return value


def _endpoint(job: Job) -> dict[str, str]:
    """Nothing for a job that came by gRPC."""
    return {"endpoint": _ENDPOINT_OF[job.kind]} if job.kind in _ENDPOINT_OF else {}


def _error(job: Job) -> Any:
    if not job.error_reason:
        return None
    return to_body(WeirError(Reason(job.error_reason), job.error_message))["error"]
