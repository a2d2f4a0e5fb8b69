"""Rules of the directory that span several entries."""

from collections.abc import Iterable, Sequence

from weir_gateway.directory.degradation_entry import fallback_problem
from weir_gateway.directory.document import Document, ModelEntry, TenantEntry
from weir_gateway.directory.entries import LimitEntry, ParameterEntry
from weir_gateway.directory.owner import Owner, owner_of, owners_of_limits
from weir_gateway.directory.places import Path
from weir_gateway.directory.pool_checks import pool_problem, pools_of_model_problem

EVERY_MODEL = "*"


class RuleBroken(ValueError):
    """A rule does not hold.

    Attributes:
        path: of the entry to blame, see `Places.line`.
    """

    def __init__(self, owner: Owner, problem: str) -> None:
        super().__init__(f"{owner.name}: {problem}")
        self.path: Path = owner.path


def check_document(document: Document) -> None:
    """Checks ids, references and weights.

    Raises:
        RuleBroken: one line that names the entry and the problem.
    """
    _check_models(document)
    for owner, limits in owners_of_limits(document):
        _check_limits(owner, limits, document)
    for plan in document.plans:
        _check_known(owner_of("plan", plan.id), plan.policy.allowed_models, document)
    _check_tenants(document)
    for pool in document.pools:
        problem = pool_problem(pool, {tenant.id for tenant in document.tenants})
        if problem:
            raise RuleBroken(owner_of("pool", pool.name), problem)


def _check_models(document: Document) -> None:
    names = [model.name for model in document.models]
    aliases = [alias for model in document.models for alias in model.aliases]
    _unique(Owner("models", ("models",)), "name or alias", [*names, *aliases])
    pools = {pool.name: pool for pool in document.pools}
    fallbacks = {model.name: model.fallback_model or "" for model in document.models}
    for model in document.models:
        owner = owner_of("model", model.name)
        if problem := pools_of_model_problem([model.pool, *model.further_pools], pools):
            raise RuleBroken(owner, problem)
        if problem := fallback_problem(model.name, fallbacks):
            raise RuleBroken(owner, problem)
        _unique(owner, "version", [version.version for version in model.versions])
        if not any(version.weight for version in model.versions):
            raise RuleBroken(owner, "the weights of its versions are all 0")
        _check_parameters(owner, model.parameters, model)


def _check_tenants(document: Document) -> None:
    tenants = document.tenants
    _unique(Owner("tenants", ("tenants",)), "id", [tenant.id for tenant in tenants])
    keys = [key for tenant in tenants for key in tenant.keys]
    everyones = Owner("keys", ("tenants",))
    _unique(everyones, "id", [key.id for key in keys])
    hashes = [digest for key in keys for digest in key.all_hashes]
    if len(set(hashes)) < len(hashes):
        raise RuleBroken(everyones, "two of them have the same hash")
    plans = {plan.id for plan in document.plans}
    for tenant in tenants:
        owner = owner_of("tenant", tenant.id)
        if tenant.plan not in plans:
            raise RuleBroken(owner, f"there is no plan {tenant.plan!r}")
        _check_tenant(owner, tenant, document)


def _check_tenant(owner: Owner, tenant: TenantEntry, document: Document) -> None:
    users = [user.id for user in tenant.users]
    _unique(owner, "user", users)
    _check_known(owner, tenant.policy.allowed_models, document)
    models = {model.name: model for model in document.models}
    for name, parameters in tenant.parameters.items():
        if name != EVERY_MODEL:
            _check_known(Owner(f"{owner.name}, parameters", owner.path), [name], document)
        _check_parameters(owner, parameters, models.get(name))
    for key in tenant.keys:
        of_key = owner.within("key", key.id)
        if key.user not in users:
            raise RuleBroken(of_key, f"there is no user {key.user!r} in the tenant")
        if not 1 <= len(key.all_hashes) <= 2:
            raise RuleBroken(of_key, "it needs `hash`, or `hashes` with one or two")
        _check_known(of_key, key.allowed_models, document)


def _check_limits(owner: Owner, limits: Sequence[LimitEntry], document: Document) -> None:
    ids = [limit.effective_id for limit in limits]
    _unique(owner, "limit", ids, mend="; give one of them an `id` of its own")
    _check_known(owner, [limit.model for limit in limits if limit.model is not None], document)


def _check_parameters(owner: Owner, entry: ParameterEntry, model: ModelEntry | None) -> None:
    default, most = entry.default_max_new_tokens, entry.max_new_tokens
    if default is not None and most is not None and default > most:
        raise RuleBroken(owner, f"default_max_new_tokens {default} is above max_new_tokens {most}")
    if model is not None and most is not None and most > model.max_context:
        raise RuleBroken(owner, f"max_new_tokens {most} is above max_context {model.max_context}")
    tokens, offline = entry.max_batch_tokens, entry.offline_max_batch_tokens
    if tokens is not None and offline is not None and offline < tokens:
        raise RuleBroken(
            owner, f"offline_max_batch_tokens {offline} is below max_batch_tokens {tokens}"
        )


def _check_known(owner: Owner, models: Iterable[str], document: Document) -> None:
    known = {model.name for model in document.models}
    for name in models:
        if name not in known:
            raise RuleBroken(owner, f"there is no model {name!r}")


def _unique(owner: Owner, what: str, names: Sequence[str], mend: str = "") -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise RuleBroken(owner, f"the {what} {name!r} is there twice{mend}")
        seen.add(name)
