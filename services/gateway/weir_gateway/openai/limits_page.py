"""`GET /v1/limits`: where the caller's own limits stand, and what a request would meet."""

from collections.abc import Mapping
from typing import Any

from weir.common.v1.subject_pb2 import DeliveryMode, Subject
from weir.ratelimiter.v1.ratelimiter_service_pb2 import (
    ExplainRequest,
    ExplainResponse,
    LimiterMode,
    LimitStatus,
    ReserveRequest,
)
from weir_core.errors import InvalidField
from weir_core.errors.openai import limit_fields
from weir_core.errors.refusal import rfc3339, unit_of
from weir_core.errors.status import from_refusal
from weir_gateway.caller.caller import Caller
from weir_gateway.intake.model_list import ModelList
from weir_gateway.links.account_reader import AccountReader
from weir_gateway.openai.query import Query

_FIELDS = ("model", "prompt_tokens", "max_tokens", "stream")
_MOST_TOKENS = 10**9


class LimitsPage:
    """Tells a caller its own account.

    Args:
        reader: asks the ratelimiter.
        models: those that callers may use.
    """

    def __init__(self, reader: AccountReader, models: ModelList) -> None:
        self._reader = reader
        self._models = models

    async def show(self, caller: Caller, query: Mapping[str, str]) -> dict[str, Any]:
        """The page as JSON.

        Args:
            caller: whose limits.
            query: optional `model`; with `prompt_tokens` and `max_tokens`, and optional
                `stream`, what such a request would meet.

        Raises:
            WeirError: a bad query, MODEL_NOT_FOUND or LIMITER_UNAVAILABLE.
        """
        request = self._request(caller, query)
        response = await self._reader.explain(request)
        page: dict[str, Any] = {
            "object": "list",
            "mode": _mode(response),
            # Shadow limits are the operator's trial and refuse nobody.
            "data": [_limit(status) for status in response.limits if not status.shadow],
        }
        if request.HasField("hypothetical"):
            page["request"] = {
                "admissible": response.admissible,
                "refused_by": [limit_fields(v) for v in from_refusal(response.refusal)],
            }
        return page

    def _request(self, caller: Caller, query: Mapping[str, str]) -> ExplainRequest:
        fields = Query(query, _FIELDS)
        model = self._models.one(caller, query["model"]).name if "model" in query else ""
        request = ExplainRequest(
            subject=Subject(
                tenant_id=caller.tenant_id,
                user_id=caller.user_id,
                api_key_id=caller.key_id,
                model=model,
            )
        )
        if any(name in query for name in _FIELDS[1:]):
            request.hypothetical.CopyFrom(_hypothetical(fields))
        return request


def _hypothetical(query: Query) -> ReserveRequest:
    if "model" not in query:
        raise InvalidField("model", "", "the name of a model, since a request is described")
    return ReserveRequest(
        prompt_tokens=_tokens(query, "prompt_tokens"),
        max_new_tokens=_tokens(query, "max_tokens"),
        mode=(
            DeliveryMode.DELIVERY_MODE_STREAM
            if query.boolean("stream")
            else DeliveryMode.DELIVERY_MODE_NON_STREAM
        ),
    )


def _tokens(query: Query, name: str) -> int:
    if name not in query:
        raise InvalidField(name, "", f"a number of tokens, 1 to {_MOST_TOKENS}")
    return query.integer(name, default=0, most=_MOST_TOKENS)


def _mode(response: ExplainResponse) -> str:
    degraded = response.limiter_mode == LimiterMode.LIMITER_MODE_DEGRADED
    return "degraded" if degraded else "enforced"


def _limit(status: LimitStatus) -> dict[str, Any]:
    def number(name: str) -> int | None:
        return getattr(status, name) if status.HasField(name) else None  # type: ignore[arg-type]

    reset_ms = status.reset_time.ToMilliseconds() if status.HasField("reset_time") else 0
    return {
        "id": status.limit_id,
        "limit_type": status.limit_type,
        "layer": status.layer,
        "resource": status.resource,
        "unit": unit_of(status.resource),
        "limit": number("limit"),
        "remaining": number("remaining"),
        "held": number("held"),
        "used_last_minute": number("used_last_minute"),
        "reset_time": rfc3339(reset_ms) if reset_ms else None,
        "window": status.window or None,
    }
