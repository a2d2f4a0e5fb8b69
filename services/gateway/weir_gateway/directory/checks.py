"""Rules of the directory that span several entries."""

from collections.abc import Iterable, Sequence

from weir_gateway.directory.document import Document, ModelEntry, PoolEntry, TenantEntry
from weir_gateway.directory.entries import LimitEntry, ParameterEntry

EVERY_MODEL = "*"


def check_document(document: Document) -> None:
    """Checks ids, references and weights.

    Raises:
        ValueError: one line that names the entry and the problem.
    """
    _check_models(document)
    _check_limits("cluster", document.cluster.limits, document)
    for plan in document.plans:
        _check_limits(f"plan {plan.id!r}", plan.limits, document)
        _check_known(f"plan {plan.id!r}", plan.policy.allowed_models, document)
    _check_tenants(document)
    for pool in document.pools:
        _check_pool(pool, document)


def _check_models(document: Document) -> None:
    names = [model.name for model in document.models]
    aliases = [alias for model in document.models for alias in model.aliases]
    _unique("models", "name or alias", [*names, *aliases])
    pools = {pool.name for pool in document.pools}
    for model in document.models:
        where = f"model {model.name!r}"
        if model.pool not in pools:
            raise ValueError(f"{where}: there is no pool {model.pool!r}")
        _unique(where, "version", [version.version for version in model.versions])
        if not any(version.weight for version in model.versions):
            raise ValueError(f"{where}: the weights of its versions are all 0")
        _check_limits(where, model.limits, document)
        _check_parameters(where, model.parameters, model)


def _check_tenants(document: Document) -> None:
    tenants = document.tenants
    _unique("tenants", "id", [tenant.id for tenant in tenants])
    keys = [key for tenant in tenants for key in tenant.keys]
    _unique("keys", "id", [key.id for key in keys])
    hashes = [digest for key in keys for digest in key.all_hashes]
    if len(set(hashes)) < len(hashes):
        raise ValueError("keys: two of them have the same hash")
    plans = {plan.id for plan in document.plans}
    for tenant in tenants:
        if tenant.plan not in plans:
            raise ValueError(f"tenant {tenant.id!r}: there is no plan {tenant.plan!r}")
        _check_tenant(tenant, document)


def _check_tenant(tenant: TenantEntry, document: Document) -> None:
    where = f"tenant {tenant.id!r}"
    users = [user.id for user in tenant.users]
    _unique(where, "user", users)
    _check_limits(where, tenant.limits, document)
    _check_known(where, tenant.policy.allowed_models, document)
    models = {model.name: model for model in document.models}
    for name, parameters in tenant.parameters.items():
        if name != EVERY_MODEL:
            _check_known(f"{where}, parameters", [name], document)
        _check_parameters(where, parameters, models.get(name))
    for user in tenant.users:
        _check_limits(f"{where}, user {user.id!r}", user.limits, document)
    for key in tenant.keys:
        key_where = f"{where}, key {key.id!r}"
        if key.user not in users:
            raise ValueError(f"{key_where}: there is no user {key.user!r} in the tenant")
        if not 1 <= len(key.all_hashes) <= 2:
            raise ValueError(f"{key_where}: it needs `hash`, or `hashes` with one or two")
        _check_limits(key_where, key.limits, document)
        _check_known(key_where, key.allowed_models, document)


def _check_limits(where: str, limits: Sequence[LimitEntry], document: Document) -> None:
    _unique(where, "limit", [limit.effective_id for limit in limits])
    _check_known(where, [limit.model for limit in limits if limit.model is not None], document)


def _check_parameters(where: str, entry: ParameterEntry, model: ModelEntry | None) -> None:
    default, most = entry.default_max_new_tokens, entry.max_new_tokens
    if default is not None and most is not None and default > most:
        raise ValueError(
            f"{where}: default_max_new_tokens {default} is above max_new_tokens {most}"
        )
    if model is not None and most is not None and most > model.max_context:
        raise ValueError(f"{where}: max_new_tokens {most} is above max_context {model.max_context}")


def _check_known(where: str, models: Iterable[str], document: Document) -> None:
    known = {model.name for model in document.models}
    for name in models:
        if name not in known:
            raise ValueError(f"{where}: there is no model {name!r}")


def _check_pool(pool: PoolEntry, document: Document) -> None:
    where = f"pool {pool.name!r}"
    if (pool.isolation == "dedicated") != (pool.tenant is not None):
        raise ValueError(f"{where}: `tenant` goes with isolation dedicated, and only with it")
    if pool.tenant is not None and pool.tenant not in {tenant.id for tenant in document.tenants}:
        raise ValueError(f"{where}: there is no tenant {pool.tenant!r}")


def _unique(where: str, what: str, names: Sequence[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ValueError(f"{where}: the {what} {name!r} is there twice")
        seen.add(name)
