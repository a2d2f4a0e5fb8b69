"""Sums of the ledger as the tenant pages get them."""

from collections.abc import Iterable, Sequence
from typing import Any

from weir.ratelimiter.v1.ledger_service_pb2 import UsageSum
from weir_gateway.console.forms.moments import amount, moment

GROUPS = {"hour": "hour", "day": "day", "user": "user", "key": "api_key", "model": "model"}
"""What rows can be told apart by: our word and the ledger's."""

_TOKENS = (
    "prompt_tokens",
    "cached_prompt_tokens",
    "completion_tokens",
    "total_tokens",
    "recomputed_tokens",
)


def totals_json(one: UsageSum) -> dict[str, Any]:
    """One sum."""
    usage = one.usage
    tokens = {name: getattr(usage, name) for name in _TOKENS}
    return {"requests": one.requests, **tokens, "amount": amount(one.amount_nanos)}


def added(sums: Iterable[UsageSum]) -> UsageSum:
    """All of them as one."""
    whole = UsageSum()
    for one in sums:
        whole.requests += one.requests
        whole.amount_nanos += one.amount_nanos
        for name in _TOKENS:
            setattr(whole.usage, name, getattr(whole.usage, name) + getattr(one.usage, name))
    return whole


def row_json(one: UsageSum, by: Sequence[str]) -> dict[str, Any]:
    """One sum with what it is told apart by."""
    names: dict[str, Any] = {}
    for group in by:
        if group in ("hour", "day"):
            names["time"] = moment(one, "from_time")
        else:
            names[group] = getattr(one, "model" if group == "model" else f"{GROUPS[group]}_id")
    return names | totals_json(one)
