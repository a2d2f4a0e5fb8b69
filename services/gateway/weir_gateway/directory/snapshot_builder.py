"""A checked directory file as a snapshot."""

from weir.common.v1.subject_pb2 import RequestClass
from weir.directory.v1.directory_pb2 import (
    ApiKey,
    ExtendPolicy,
    FairQueue,
    Isolation,
    KvPolicy,
    Model,
    ModelParameters,
    ModelVersion,
    OnRevoke,
    Plan,
    Policy,
    PolicyParameters,
    Pool,
    Price,
    ReservePolicy,
    SchedulerPolicy,
    Snapshot,
    Tenant,
    User,
    VersionFallback,
    VersionStickiness,
)
from weir_gateway.directory.checks import EVERY_MODEL
from weir_gateway.directory.degradation_conversion import to_degradation_policy
from weir_gateway.directory.document import (
    Document,
    KeyEntry,
    KvEntry,
    ModelEntry,
    PlanEntry,
    PolicyEntry,
    PoolEntry,
    TenantEntry,
    UserEntry,
)
from weir_gateway.directory.entries import ParameterEntry, PriceEntry
from weir_gateway.directory.limit_conversion import to_limits
from weir_gateway.directory.offline_conversion import (
    to_batch_policy,
    to_file_policy,
    to_keep_policy,
)
from weir_gateway.directory.placement_conversion import set_placement
from weir_gateway.directory.pool_conversion import set_scope, to_targets

_SAME_NAME = (
    "default_max_new_tokens",
    "max_new_tokens",
    "temperature",
    "top_p",
    "top_k",
    "max_batch_size",
    "max_batch_tokens",
    "batch_wait_ms",
    "max_concurrent_requests",
    "queue_timeout_ms",
    "max_queued_requests",
    "long_context_threshold",
    "max_step_tokens",
    "offline_batch_wait_ms",
    "offline_max_batch_tokens",
    "max_running_long",
)


def build_snapshot(document: Document, version: int) -> Snapshot:
    """The snapshot of a document, numbered `version`."""
    tenants = document.tenants
    return Snapshot(
        version=version,
        tenants=[_tenant(tenant) for tenant in tenants],
        users=[_user(tenant.id, user) for tenant in tenants for user in tenant.users],
        api_keys=[_key(tenant.id, key) for tenant in tenants for key in tenant.keys],
        plans=[_plan(plan) for plan in document.plans],
        models=[_model(model) for model in document.models],
        cluster_limits=to_limits(document.cluster.limits),
        pools=[_pool(pool) for pool in document.pools],
    )


def _tenant(entry: TenantEntry) -> Tenant:
    return Tenant(
        id=entry.id,
        name=entry.name,
        plan_id=entry.plan,
        suspended=entry.suspended,
        limits=to_limits(entry.limits),
        policy=_policy(entry.policy),
        model_parameters=[
            _parameters(parameters, "" if name == EVERY_MODEL else name)
            for name, parameters in entry.parameters.items()
        ],
    )


def _user(tenant_id: str, entry: UserEntry) -> User:
    return User(id=entry.id, tenant_id=tenant_id, name=entry.name, limits=to_limits(entry.limits))


def _key(tenant_id: str, entry: KeyEntry) -> ApiKey:
    key = ApiKey(
        id=entry.id,
        tenant_id=tenant_id,
        user_id=entry.user,
        hashes=entry.all_hashes,
        revoked=entry.revoked,
        limits=to_limits(entry.limits),
        allowed_models=entry.allowed_models,
        name=entry.name,
    )
    if entry.expires is not None:
        key.expire_time.FromDatetime(entry.expires)
    return key


def _plan(entry: PlanEntry) -> Plan:
    return Plan(id=entry.id, limits=to_limits(entry.limits), policy=_policy(entry.policy))


def _policy(entry: PolicyEntry) -> Policy:
    policy = Policy(
        weight=entry.weight or 0,
        max_priority=entry.max_priority or 0,
        max_running_requests=entry.max_running_requests or 0,
        max_queued_requests=entry.max_queued_requests or 0,
        allowed_models=entry.allowed_models,
        require_max_new_tokens=entry.require_max_new_tokens or False,
        degradations=list(entry.degradations),
        kv=_kv(entry.kv),
        slo=to_targets(entry.slo),
        files=to_file_policy(entry.files),
        batch=to_batch_policy(entry.batch),
        keep=to_keep_policy(entry.keep),
        degradation=to_degradation_policy(entry.degradation),
    )
    if entry.reserve_policy is not None:
        policy.reserve_policy = ReservePolicy.Value(
            f"RESERVE_POLICY_{entry.reserve_policy.upper()}"
        )
    if entry.extend_policy is not None:
        policy.extend_policy = ExtendPolicy.Value(f"EXTEND_POLICY_{entry.extend_policy.upper()}")
    if entry.on_revoke is not None:
        policy.on_revoke = OnRevoke.Value(f"ON_REVOKE_{entry.on_revoke.upper()}")
    return policy


def _kv(entry: KvEntry) -> KvPolicy | None:
    """None when nothing is set: then all of it is the plan's."""
    if entry == KvEntry():
        return None
    ttl_ms = None if entry.session_ttl_s is None else 1_000 * entry.session_ttl_s
    return KvPolicy(
        max_tokens=entry.max_tokens,
        weight=entry.weight,
        share_private=entry.share_private,
        session_ttl_ms=ttl_ms,
        normalise_prefix=entry.normalise_prefix,
    )


def _model(entry: ModelEntry) -> Model:
    model = Model(
        name=entry.name,
        aliases=entry.aliases,
        versions=[
            ModelVersion(version=version.version, weight=version.weight, folder=version.folder)
            for version in entry.versions
        ],
        limits=to_limits(entry.limits),
        parameters=_parameters(entry.parameters),
        max_context_tokens=entry.max_context,
        pool=entry.pool,
        version_stickiness=VersionStickiness.Value(f"VERSION_STICKINESS_{entry.sticky.upper()}"),
        version_fallback=VersionFallback.Value(
            f"VERSION_FALLBACK_{entry.version_fallback.upper()}"
        ),
        further_pools=entry.further_pools,
        fallback_model=entry.fallback_model or "",
    )
    if entry.price is not None:
        model.price.CopyFrom(_price(entry.price))
    if entry.created is not None:
        model.create_time.FromDatetime(entry.created)
    return model


def _price(entry: PriceEntry) -> Price:
    cached = entry.input if entry.cached_input is None else entry.cached_input
    return Price(input_nanos=entry.input, cached_input_nanos=cached, output_nanos=entry.output)


def _parameters(entry: ParameterEntry, model: str = "") -> ModelParameters:
    parameters = ModelParameters(model=model)
    for name in _SAME_NAME:
        value = getattr(entry, name)
        if value is not None:
            setattr(parameters, name, value)
    if entry.alpha is not None:
        parameters.alpha_millis = round(entry.alpha * 1000)
    for profile, nested in entry.profiles.items():
        parameters.profiles[profile].CopyFrom(_parameters(nested))
    return parameters


def _pool(entry: PoolEntry) -> Pool:
    pool = Pool(
        name=entry.name,
        isolation=Isolation.Value(f"ISOLATION_{entry.isolation.upper()}"),
        scheduler_policy=SchedulerPolicy.Value(
            f"SCHEDULER_POLICY_{entry.scheduler_policy.upper()}"
        ),
        tenant_id=entry.tenant or "",
        fair_queue=FairQueue.Value(f"FAIR_QUEUE_{entry.fair_queue.upper()}"),
        quantum_tokens=entry.quantum_tokens or 0,
        policy_parameters=PolicyParameters(**entry.policy_parameters.model_dump()),
    )
    set_scope(pool, entry)
    set_placement(pool, entry)
    if entry.request_class is not None:
        setattr(pool, "class", RequestClass.Value(f"REQUEST_CLASS_{entry.request_class.upper()}"))
    return pool
