"""The directory as the pages get it; never a hash of a key."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message

from weir.directory.v1.directory_pb2 import (
    ApiKey,
    Limit,
    LimitKind,
    LimitResource,
    Model,
    Plan,
    Pool,
    Price,
    Tenant,
    User,
)
from weir_core.directory import DirectoryIndex
from weir_core.errors.refusal import allowance, rate_allowance
from weir_gateway.console.forms.moments import amount, moment, word

_PERIODS = {LimitResource.LIMIT_RESOURCE_REQUESTS: 1_000}
_MINUTE_MS = 60_000


class Counts:
    """Users and keys by tenant, of one version of the directory; None: of none."""

    def __init__(self, index: DirectoryIndex | None = None) -> None:
        self.version = -1 if index is None else index.version
        self.users = Counter(user.tenant_id for user in (index.users if index else ()))
        self.keys = Counter(key.tenant_id for key in (index.api_keys if index else ()))


def tenant_json(index: DirectoryIndex, tenant: Tenant, counts: Counts) -> dict[str, Any]:
    """One tenant."""
    return {
        "id": tenant.id,
        "name": tenant.name,
        "plan": tenant.plan_id,
        "suspended": tenant.suspended,
        "weight": index.policy(tenant.id).weight or 1,
        "users": counts.users[tenant.id],
        "keys": counts.keys[tenant.id],
    }


def key_json(key: ApiKey) -> dict[str, Any]:
    """One key, by its public id."""
    return {
        "id": key.id,
        "name": key.name,
        "user": key.user_id,
        "revoked": key.revoked,
        "expire_time": moment(key, "expire_time"),
        "models": list(key.allowed_models),
    }


def user_json(user: User, keys: int) -> dict[str, Any]:
    """One user, and how many keys it has."""
    return {"id": user.id, "name": user.name, "keys": keys}


def policy_json(policy: Message) -> dict[str, Any]:
    """What a policy sets, by the names of the contract; values that are not set are left out."""
    return MessageToDict(policy, preserving_proto_field_name=True)


def limit_json(limit: Limit) -> dict[str, Any]:
    """One limit as it is configured."""
    return {
        "id": limit.id,
        "kind": (word(LimitKind, limit.kind, "LIMIT_KIND_") or "").lower(),
        "resource": _resource(limit),
        "capacity": limit.capacity,
        "window": limit.window or None,
        "model": limit.model or None,
        "shadow": limit.shadow,
        "text": _limit_text(limit),
    }


def plan_json(plan: Plan) -> dict[str, Any]:
    """One plan."""
    return {"id": plan.id, "limits": _limits(plan.limits), "policy": policy_json(plan.policy)}


def model_json(model: Model) -> dict[str, Any]:
    """One model."""
    return {
        "name": model.name,
        "aliases": list(model.aliases),
        "versions": [{"version": one.version, "weight": one.weight} for one in model.versions],
        "pool": model.pool,
        "further_pools": list(model.further_pools),
        "fallback_model": model.fallback_model or None,
        "max_context_tokens": model.max_context_tokens,
        "price": _price(model.price) if model.HasField("price") else None,
        "limits": _limits(model.limits),
        "parameters": policy_json(model.parameters),
    }


def pool_config_json(pool: Pool) -> dict[str, Any]:
    """One pool as it is configured."""
    return policy_json(pool)


def _price(price: Price) -> dict[str, str]:
    return {
        "input": amount(price.input_nanos),
        "cached_input": amount(price.cached_input_nanos),
        "output": amount(price.output_nanos),
    }


def _limits(limits: Iterable[Limit]) -> list[dict[str, Any]]:
    return [limit_json(limit) for limit in limits]


def _resource(limit: Limit) -> str:
    return (word(LimitResource, limit.resource, "LIMIT_RESOURCE_") or "").lower()


def _limit_text(limit: Limit) -> str:
    resource = _resource(limit)
    if limit.kind == LimitKind.LIMIT_KIND_BUCKET:
        period = limit.period.ToMilliseconds() if limit.HasField("period") else 0
        period = period or _PERIODS.get(limit.resource, _MINUTE_MS)
        return rate_allowance(limit.refill or limit.capacity, period, limit.capacity, resource)
    told = allowance(limit.capacity, resource)
    return f"{told} per {limit.window}" if limit.window else told
