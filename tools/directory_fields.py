"""Tables of the `policy` and `pools` fields of the directory file, from its models."""

import inspect
from collections.abc import Iterator
from typing import Any, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from weir_gateway.directory.document import PolicyEntry, PoolEntry

_POOLS, _PLACEMENT, _SCHEDULING = (
    "[pools](pools.md)",
    "[placement](placement.md)",
    "[scheduling](scheduling.md)",
)
_BATCHES = "[batches](batches.md)"
_KEEP = "[privacy](privacy.md#bounds-on-what-is-kept)"
_DEGRADATION = "[degradation](degradation.md)"
_KV = "[below](#a-tenants-part-of-the-kv-caches)"
_LIMITS = "[limits](limits.md)"
_POLICIES = "[policies](../services/scheduler/weir_scheduler/policies/README.md)"
_PLACES = {
    "policy": {
        "weight": _SCHEDULING, "max_priority": _SCHEDULING,
        "max_running_requests": "[below](#fair-shares-of-the-running-slots)",
        "max_queued_requests": _POOLS, "reserve_policy": _LIMITS, "extend_policy": _LIMITS,
        "on_revoke": "[administration](administration.md#when-access-ends)",
        "kv": _KV, "slo": _POOLS, "files": _BATCHES, "batch": _BATCHES, "keep": _KEEP,
        "degradations": _DEGRADATION, "degradation": _DEGRADATION,
    },
    "pools": {
        "scheduler_policy": _SCHEDULING, "policy_parameters": _POLICIES,
        "fair_queue": _SCHEDULING, "quantum_tokens": _SCHEDULING,
        "placement": _PLACEMENT, "preemption": _PLACEMENT, "scaling": "[scaling](scaling.md)",
    },
}  # fmt: skip


# What an absent field comes to; the models leave it unset, for the plan's to show through.
_ABSENT = {
    "policy": {
        "weight": "1", "max_priority": "0", "max_running_requests": "no bound",
        "max_queued_requests": "the scheduler's `max_queued_requests_per_tenant`",
        "allowed_models": "every model", "require_max_new_tokens": "`false`",
        "reserve_policy": "`full`", "extend_policy": "`stop`",
        "on_revoke": "the gateway's `end_streams_on_revocation`", "kv.max_tokens": "no bound",
        "kv.weight": "1", "kv.share_private": "`false`", "kv.normalise_prefix": "`true`",
        "kv.session_ttl_s": "900; 0, or 600 to 1800",
        "slo.ttft_ms": "no target", "slo.itl_ms": "no target", "slo.e2e_ms": "no target",
        "slo.attainment": "0.95", "slo.shed": "`false`", "degradations": "none",
        "files.max_files": "1000", "files.max_bytes": "10000000000",
        "keep.max_responses": "100000", "keep.max_response_bytes": "2000000000",
        "keep.max_idempotency_keys": "1000000", "keep.max_idempotency_bytes": "1000000000",
        "keep.max_webhooks": "20000", "keep.max_event_streams": "100",
        "batch.max_enqueued_tokens": "200000000", "batch.to_job_after_ms": "never",
        "degradation.min_new_tokens": "16", "degradation.truncate": "`none`",
        "degradation.max_wait_ms": "only what the queue refuses",
    },
    "pools": {
        "quantum_tokens": "16384", "tenant": "any", "class": "both", "length": "both",
        "profiles": "those that no other pool claims", "when_gone": "by the kind of pool",
        "shares.interactive": "9", "shares.batch": "1", "shares.short": "4", "shares.long": "1",
        "placement.session_wait_ms": "100", "placement.affinity_excess": "0.15",
        "placement.affinity_slack_tokens": "2048", "placement.retry_ratio": "0.1",
        "placement.retries_per_s": "2", "preemption.max_overtakings": "4",
        "preemption.max_preemptions": "2", "preemption.max_overtake_ratio": "0.25",
        "preemption.place_wait_ms": "1000",
    },
}  # fmt: skip
_ABSENT_GROUPS = {
    "policy_parameters": "the policy's",
    "scaling": "the scheduler's setting",
}  # fmt: skip


def policy_fields() -> str:
    """Every field of `policy`."""
    return _table(PolicyEntry, "policy", "")


def pool_fields() -> str:
    """Every field of an entry of `pools`."""
    return _table(PoolEntry, "pools", _POOLS)


def _table(model: type[BaseModel], kind: str, else_at: str) -> str:
    head = "| field | values and bounds | default | explained in |\n|---|---|---|---|"
    rows = []
    for name, values, default in _fields(model, ""):
        place = _PLACES[kind].get(name.split(".")[0], else_at)
        group = _ABSENT_GROUPS.get(name.split(".")[0], default)
        default = _ABSENT[kind].get(name, group)
        if default == "unset":
            raise KeyError(f"say in {__file__} what an absent {kind}.{name} comes to")
        rows.append(f"| `{name}` | {values} | {default} | {place} |")
    return "\n".join([head, *rows])


def _fields(model: type[BaseModel], prefix: str) -> Iterator[tuple[str, str, str]]:
    for name, field in model.model_fields.items():
        full = f"{prefix}{field.alias or name}"
        nested = _nested(field.annotation)
        if nested is not None:
            yield from _fields(nested, f"{full}.")
        else:
            bounds = _bounds(field.annotation, field.metadata)
            yield full, ", ".join([_values(field.annotation), *bounds]), _default(field)


def _nested(annotation: Any) -> type[BaseModel] | None:
    for part in (annotation, *get_args(annotation)):
        if inspect.isclass(part) and issubclass(part, BaseModel):
            return part
    return None


def _values(annotation: Any) -> str:
    arguments = get_args(annotation)
    if arguments and all(isinstance(one, str) for one in arguments):
        return " / ".join(f"`{one}`" for one in arguments)
    if get_origin(annotation) is tuple:
        return f"list of {_values(arguments[0])}"
    if hasattr(annotation, "__metadata__"):
        return _values(arguments[0])
    if arguments:
        return _values(next(one for one in arguments if one is not type(None)))
    return {"bool": "`true` / `false`", "str": "text"}.get(name := str(annotation.__name__), name)


def _bounds(annotation: Any, metadata: list[Any]) -> list[str]:
    rules = list(metadata)
    for part in (annotation, *get_args(annotation)):
        for rule in getattr(part, "__metadata__", ()):
            rules.extend([rule, *getattr(rule, "metadata", ())])
    return [
        f"{sign} {bound}"
        for rule in rules
        if not isinstance(rule, FieldInfo)
        for key, sign in (("ge", ">="), ("gt", ">"), ("le", "<="), ("lt", "<"))
        if (bound := getattr(rule, key, None)) is not None
    ]


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    return f"`{field.default}`" if field.default not in (None, ()) else "unset"
