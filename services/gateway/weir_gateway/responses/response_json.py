"""The object `response`."""

from collections.abc import Mapping, Sequence
from typing import Any

from weir.common.v1.sampling_pb2 import FinishReason
from weir.common.v1.usage_pb2 import Usage
from weir_core.errors import WeirError
from weir_core.errors.openai import to_body
from weir_gateway.flow.ending import Ending
from weir_gateway.intake.prepared_request import PreparedRequest
from weir_gateway.openai.service_tier import used_tier
from weir_gateway.responses.items import Item
from weir_gateway.responses.request import ResponseRequest

ResponseJson = dict[str, Any]

ENDED = frozenset({"completed", "failed", "cancelled", "incomplete"})
_LIMIT_CODES = frozenset({"rate_limit_exceeded", "insufficient_quota", "quota_stopped"})


def begun(
    request: ResponseRequest, prepared: PreparedRequest, *, created_s: int, status: str
) -> ResponseJson:
    """A response of which nothing was answered yet."""
    sampling = prepared.sampling
    changed = {"degradations": list(prepared.degradations)} if prepared.degradations else {}
    return {
        "id": request.id,
        "object": "response",
        "created_at": created_s,
        "status": status,
        "completed_at": None,
        "error": None,
        "incomplete_details": None,
        **request.told,
        "model": prepared.subject.model,
        "output": [],
        "service_tier": used_tier(request.service_tier, prepared),
        "store": True,
        "temperature": round(sampling.temperature, 6),
        "top_p": round(sampling.top_p, 6),
        "usage": None,
        **changed,
    }


def status_of(ending: Ending) -> str:
    """How a response ended that was answered, in whole or in part."""
    if ending.error is not None:
        return "failed"
    (reason,) = ending.finish_reasons(1)
    return "incomplete" if reason == FinishReason.FINISH_REASON_LENGTH else "completed"


def ended(
    response: Mapping[str, Any], ending: Ending, output: Sequence[Item], now_s: int
) -> ResponseJson:
    """A response whose answer has ended."""
    status = status_of(ending)
    return {
        **response,
        "status": status,
        "output": list(output),
        "usage": usage_json(ending.usage),
        "completed_at": now_s if status == "completed" else None,
        "error": None if ending.error is None else error_json(ending.error),
        "incomplete_details": {"reason": "max_output_tokens"} if status == "incomplete" else None,
    }


def error_json(error: WeirError) -> dict[str, Any]:
    """Why a response failed; `code` is of those that the SDK knows, `reason` the very one."""
    told = to_body(error)["error"]
    code = "server_error"
    if told["code"] in _LIMIT_CODES:
        code = "rate_limit_exceeded"
    elif told["type"] == "invalid_request_error":
        code = "invalid_prompt"
    return {"code": code, "message": told["message"], "reason": told["reason"]}


def usage_json(usage: Usage) -> dict[str, Any]:
    """`usage` as responses have it."""
    return {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {
            "cached_tokens": usage.cached_prompt_tokens,
            "cache_write_tokens": 0,
        },
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
    }
