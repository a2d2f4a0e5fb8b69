"""Objects of a snapshot in the form of the directory file: what the database keeps.

One form, so that one set of rules (`document`, `checks`) holds for the file and for what an
administrator sends.
"""

from collections.abc import Iterable
from decimal import Decimal
from typing import Any

from google.protobuf.message import Message

from weir.directory.v1.directory_pb2 import (
    ApiKey,
    DegradationPolicy,
    ExtendPolicy,
    KvPolicy,
    Limit,
    LimitResource,
    Model,
    ModelParameters,
    OnRevoke,
    Plan,
    Policy,
    ReservePolicy,
    SloTargets,
    Tenant,
    Truncation,
    User,
    VersionFallback,
    VersionStickiness,
)
from weir_gateway.directory.checks import EVERY_MODEL

Form = dict[str, Any]

_NANOS = 10**9
# Nano-units per token from money per million tokens.
_PRICE = 10**3
_OWN_FORM = frozenset({"model", "alpha_millis", "profiles"})


def tenant_form(tenant: Tenant) -> Form:
    """A tenant without its users and keys, which are objects of their own."""
    return filled(
        id=tenant.id,
        name=tenant.name,
        plan=tenant.plan_id,
        suspended=tenant.suspended,
        limits=_limits(tenant.limits),
        policy=_policy(tenant.policy),
        parameters={
            parameters.model or EVERY_MODEL: _parameters(parameters)
            for parameters in tenant.model_parameters
        },
    )


def user_form(user: User) -> Form:
    """A user without its tenant."""
    return filled(id=user.id, name=user.name, limits=_limits(user.limits))


def key_form(key: ApiKey) -> Form:
    """A key without its tenant; hashes alone, never a secret."""
    form = filled(
        id=key.id,
        user=key.user_id,
        name=key.name,
        hashes=[digest.hex() for digest in key.hashes],
        revoked=key.revoked,
        allowed_models=list(key.allowed_models),
        limits=_limits(key.limits),
    )
    if key.HasField("expire_time"):
        form["expires"] = key.expire_time.ToJsonString()
    return form


def plan_form(plan: Plan) -> Form:
    """A plan."""
    return filled(id=plan.id, limits=_limits(plan.limits), policy=_policy(plan.policy))


def model_form(model: Model) -> Form:
    """A model."""
    form = filled(
        name=model.name,
        aliases=list(model.aliases),
        pool=model.pool,
        sticky=word(VersionStickiness.Name(model.version_stickiness), "VERSION_STICKINESS_"),
        version_fallback=word(VersionFallback.Name(model.version_fallback), "VERSION_FALLBACK_"),
        further_pools=list(model.further_pools),
        fallback_model=model.fallback_model,
        limits=_limits(model.limits),
        parameters=_parameters(model.parameters),
    )
    form["max_context"] = model.max_context_tokens
    form["versions"] = [
        {"version": version.version, "weight": version.weight, "folder": version.folder}
        for version in model.versions
    ]
    if model.HasField("price"):
        price = model.price
        form["price"] = {
            "input": _decimal(price.input_nanos, _PRICE),
            "cached_input": _decimal(price.cached_input_nanos, _PRICE),
            "output": _decimal(price.output_nanos, _PRICE),
        }
    if model.HasField("create_time"):
        form["created"] = model.create_time.ToJsonString()
    return form


def limit_forms(limits: Iterable[Limit]) -> list[Form]:
    """Limits of one owner."""
    return _limits(limits)


def _limits(limits: Iterable[Limit]) -> list[Form]:
    return [_limit(limit) for limit in limits]


def _limit(limit: Limit) -> Form:
    resource = word(LimitResource.Name(limit.resource), "LIMIT_RESOURCE_")
    form = filled(
        id=limit.id,
        resource=resource,
        window=limit.window,
        time_zone=limit.time_zone,
        model=limit.model,
        shadow=limit.shadow,
    )
    money = resource == "cost"
    if limit.max_debt:
        form["max_debt"] = _units(limit.max_debt, money)
    if limit.refill or limit.HasField("period"):
        form["rate"] = f"{limit.refill}/{limit.period.ToMilliseconds()}ms"
        form["burst"] = limit.capacity
    else:
        form["limit"] = _units(limit.capacity, money)
    return form


def _units(value: int, money: bool) -> int | str:
    return _decimal(value, _NANOS) if money else value


def _policy(policy: Policy) -> Form:
    return filled(
        weight=policy.weight,
        max_priority=policy.max_priority,
        max_running_requests=policy.max_running_requests,
        max_queued_requests=policy.max_queued_requests,
        allowed_models=list(policy.allowed_models),
        require_max_new_tokens=policy.require_max_new_tokens,
        reserve_policy=word(ReservePolicy.Name(policy.reserve_policy), "RESERVE_POLICY_"),
        extend_policy=word(ExtendPolicy.Name(policy.extend_policy), "EXTEND_POLICY_"),
        on_revoke=word(OnRevoke.Name(policy.on_revoke), "ON_REVOKE_"),
        degradations=list(policy.degradations),
        kv=_kv(policy.kv),
        slo=_slo(policy.slo),
        files=_present(policy.files, skip=()),
        batch=_present(policy.batch, skip=()),
        keep=_present(policy.keep, skip=()),
        degradation=_degradation(policy.degradation),
    )


def _kv(kv: KvPolicy) -> Form:
    form = _present(kv, skip={"session_ttl_ms"})
    if kv.HasField("session_ttl_ms"):
        form["session_ttl_s"] = kv.session_ttl_ms // 1_000
    return form


def _degradation(policy: DegradationPolicy) -> Form:
    form = _present(policy, skip={"truncate"})
    if how := word(Truncation.Name(policy.truncate), "TRUNCATION_"):
        form["truncate"] = how
    return form


def _slo(slo: SloTargets) -> Form:
    form = _present(slo, skip={"attainment_millis"})
    if slo.HasField("attainment_millis"):
        form["attainment"] = slo.attainment_millis / 1_000
    return form


def _parameters(parameters: ModelParameters) -> Form:
    form = _present(parameters, skip=_OWN_FORM)
    if parameters.HasField("alpha_millis"):
        form["alpha"] = parameters.alpha_millis / 1_000
    if parameters.profiles:
        form["profiles"] = {
            name: _parameters(nested) for name, nested in sorted(parameters.profiles.items())
        }
    return form


def _present(message: Message, *, skip: Iterable[str]) -> Form:
    """The scalars of a message that are set; its names are those of the file."""
    return {field.name: value for field, value in message.ListFields() if field.name not in skip}


def filled(**fields: Any) -> Form:
    """What is neither absent nor empty: the file's defaults stand for the rest."""
    return {name: value for name, value in fields.items() if value not in ("", None, [], {}, 0)}


def word(name: str, prefix: str) -> str:
    """The file's word for a value of an enumeration; empty when it is unspecified."""
    word = name.removeprefix(prefix).lower()
    return "" if word == "unspecified" else word


def _decimal(value: int, scale: int) -> str:
    return format(Decimal(value) / scale, "f")
