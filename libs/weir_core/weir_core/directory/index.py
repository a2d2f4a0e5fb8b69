"""Immutable look-ups over one snapshot of the directory."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar
from urllib.parse import quote

from weir.directory.v1.directory_pb2 import (
    ApiKey,
    Limit,
    Model,
    Plan,
    Policy,
    Pool,
    Snapshot,
    Tenant,
    User,
)
from weir.directory.v1.directory_service_pb2 import Delta
from weir_core.directory.parameters import Parameters, resolve_parameters

_N = TypeVar("_N")
_T = TypeVar("_T")
_NOTHING = Snapshot()


@dataclass(frozen=True, slots=True)
class ScopedLimit:
    """A limit with the layer and owner that it applies to.

    Attributes:
        id: unique in the deployment, such as `tenant:acme/tpm`.
        layer: `cluster`, `tenant`, `user`, `api_key` or `model`.
        owner: escaped id of whom it counts.
        limit: as configured.
        place: where it is configured, for people: `tenant acme`, or `plan team`.
    """

    id: str
    layer: str
    owner: str
    limit: Limit
    place: str

    @property
    def knob(self) -> str:
        """What to change to move it, for people."""
        return f"limit `{self.limit.id}` of {self.place}"


class DirectoryIndex:
    """One version of the directory, indexed. Never changes; a new version is a new index."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.version: int = snapshot.version
        self._tenants = {tenant.id: tenant for tenant in snapshot.tenants}
        self._users = {(user.tenant_id, user.id): user for user in snapshot.users}
        self._keys = {key.id: key for key in snapshot.api_keys}
        self._keys_by_hash = {digest: key for key in snapshot.api_keys for digest in key.hashes}
        self._plans = {plan.id: plan for plan in snapshot.plans}
        self._pools = {pool.name: pool for pool in snapshot.pools}
        self._models = {model.name: model for model in snapshot.models}
        self._cluster = tuple(snapshot.cluster_limits)
        self._aliases = _by_alias(self._models)
        self._parameters: dict[tuple[str, str, str], Parameters] = {}

    def changed_by(self, delta: Delta) -> "DirectoryIndex":
        """The next version. Costs what the delta holds, not what the directory does.

        Raises:
            ValueError: the delta was made from another version.
        """
        if delta.base_version != self.version:
            raise ValueError(f"delta applies to version {delta.base_version}, not {self.version}")
        changed = delta.changed
        new = DirectoryIndex(_NOTHING)
        new.version = changed.version
        new._tenants = _merged(self._tenants, changed.tenants, delta.removed_tenants)
        gone = [
            (tenant, user) for tenant, _, user in (n.partition("/") for n in delta.removed_users)
        ]
        new._users = _merged(self._users, changed.users, gone)
        new._keys = _merged(self._keys, changed.api_keys, delta.removed_api_keys)
        new._keys_by_hash = self._hashes_after(changed.api_keys, delta.removed_api_keys)
        new._plans = _merged(self._plans, changed.plans, delta.removed_plans)
        new._models = _merged(self._models, changed.models, delta.removed_models)
        if delta.replace_cluster:
            new._cluster = tuple(changed.cluster_limits)
            new._pools = {pool.name: pool for pool in changed.pools}
        else:
            new._cluster, new._pools = self._cluster, self._pools
        new._aliases = _by_alias(new._models)
        return new

    @cached_property
    def snapshot(self) -> Snapshot:
        """All of it as one message; not to be changed. Made when it is first asked for."""
        return Snapshot(
            version=self.version,
            tenants=self._tenants.values(),
            users=self._users.values(),
            api_keys=self._keys.values(),
            plans=self._plans.values(),
            models=self._models.values(),
            cluster_limits=self._cluster,
            pools=self._pools.values(),
        )

    @property
    def tenants(self) -> Collection[Tenant]:
        """Every tenant, in the order of the directory."""
        return self._tenants.values()

    @property
    def users(self) -> Collection[User]:
        """Every user, likewise."""
        return self._users.values()

    @property
    def api_keys(self) -> Collection[ApiKey]:
        """Every key, likewise."""
        return self._keys.values()

    @property
    def plans(self) -> Collection[Plan]:
        """Every plan, likewise."""
        return self._plans.values()

    @property
    def models(self) -> list[Model]:
        """Every model, likewise."""
        return list(self._models.values())

    @property
    def pools(self) -> Collection[Pool]:
        """Every pool, likewise."""
        return self._pools.values()

    @property
    def limits_over_everybody(self) -> Sequence[Limit]:
        """As they are configured; see `cluster_limits`."""
        return self._cluster

    def tenant(self, tenant_id: str) -> Tenant | None:
        """The tenant of that id."""
        return self._tenants.get(tenant_id)

    def user(self, tenant_id: str, user_id: str) -> User | None:
        """The user of that id within that tenant; the same id elsewhere is another user."""
        return self._users.get((tenant_id, user_id))

    def key(self, key_id: str) -> ApiKey | None:
        """The API key of that public id."""
        return self._keys.get(key_id)

    def key_by_hash(self, digest: bytes) -> ApiKey | None:
        """The API key one of whose secrets has that SHA-256."""
        return self._keys_by_hash.get(digest)

    def plan(self, plan_id: str) -> Plan | None:
        """The plan of that id."""
        return self._plans.get(plan_id)

    def model(self, name_or_alias: str) -> Model | None:
        """The model of that name, or with that alias."""
        return self._aliases.get(name_or_alias)

    def pool(self, name: str) -> Pool | None:
        """The pool of that name."""
        return self._pools.get(name)

    def policy(self, tenant_id: str) -> Policy:
        """The plan's policy with what the tenant sets itself on top."""
        merged = Policy()
        tenant = self._tenants.get(tenant_id)
        if tenant is None:
            return merged
        plan = self._plans.get(tenant.plan_id)
        if plan is not None:
            merged.MergeFrom(plan.policy)
        for name in ("allowed_models", "degradations"):
            if getattr(tenant.policy, name):
                merged.ClearField(name)
        merged.MergeFrom(tenant.policy)
        return merged

    @cached_property
    def cluster_limits(self) -> tuple[ScopedLimit, ...]:
        """Limits over everybody."""
        return tuple(
            ScopedLimit(f"cluster/{limit.id}", "cluster", "", limit, "the cluster")
            for limit in self._cluster
        )

    def tenant_limits(self, tenant_id: str) -> tuple[ScopedLimit, ...]:
        """The plan's limits; the tenant's own replace those of the same id and add others."""
        tenant = self._tenants.get(tenant_id)
        if tenant is None:
            return ()
        plan = self._plans.get(tenant.plan_id)
        limits = {}
        if plan is not None:
            given = _scoped("tenant", (tenant_id,), plan.limits, place=f"plan {plan.id}")
            limits = {scoped.id: scoped for scoped in given}
        own = _scoped("tenant", (tenant_id,), tenant.limits)
        return tuple((limits | {scoped.id: scoped for scoped in own}).values())

    def user_limits(self, tenant_id: str, user_id: str) -> tuple[ScopedLimit, ...]:
        """Limits of one user of one tenant."""
        user = self._users.get((tenant_id, user_id))
        return _scoped("user", (tenant_id, user_id), user.limits) if user else ()

    def key_limits(self, key_id: str) -> tuple[ScopedLimit, ...]:
        """Limits of one API key."""
        key = self._keys.get(key_id)
        return _scoped("api_key", (key_id,), key.limits) if key else ()

    def model_limits(self, model_name: str) -> tuple[ScopedLimit, ...]:
        """Limits of one model over all tenants."""
        model = self._models.get(model_name)
        return _scoped("model", (model_name,), model.limits) if model else ()

    def parameters(self, model_name: str, tenant_id: str = "", profile: str = "") -> Parameters:
        """Parameters resolved model -> tenant -> worker profile.

        Raises:
            KeyError: there is no model of that name.
        """
        known = self._parameters.get((model_name, tenant_id, profile))
        if known is not None:
            return known
        tenant = self._tenants.get(tenant_id)
        resolved = resolve_parameters(
            self._models[model_name].parameters,
            tenant.model_parameters if tenant else (),
            model_name,
            profile,
        )
        if tenant is not None or not tenant_id:
            self._parameters[model_name, tenant_id, profile] = resolved
        return resolved

    def _hashes_after(
        self, changed: Sequence[ApiKey], removed: Iterable[str]
    ) -> dict[bytes, ApiKey]:
        if not changed and not removed:
            return self._keys_by_hash
        hashes = dict(self._keys_by_hash)
        for name in (*(key.id for key in changed), *removed):
            before = self._keys.get(name)
            for digest in before.hashes if before is not None else ():
                hashes.pop(digest, None)
        hashes.update({digest: key for key in changed for digest in key.hashes})
        return hashes


def _by_alias(models: Mapping[str, Model]) -> dict[str, Model]:
    return {alias: model for model in models.values() for alias in model.aliases} | dict(models)


def _merged(old: dict[_N, _T], changed: Sequence[_T], removed: Sequence[_N]) -> dict[_N, _T]:
    if not changed and not removed:
        return old
    entries = dict(old)
    entries.update((_name(entry), entry) for entry in changed)
    for name in removed:
        entries.pop(name, None)
    return entries


def _name(entry: Any) -> Any:
    """What an index knows an object by."""
    kind = entry.DESCRIPTOR.name
    if kind == "User":
        return (entry.tenant_id, entry.id)
    return entry.name if kind == "Model" else entry.id


def _scoped(
    layer: str, owners: tuple[str, ...], limits: Iterable[Limit], *, place: str = ""
) -> tuple[ScopedLimit, ...]:
    # Escaped, or user `b/c` of tenant `a` and user `c` of tenant `a/b` would share a limit.
    owner = "/".join(quote(part, safe=":") for part in owners)
    place = place or f"{layer.replace('_', ' ')} {owners[-1]}"
    return tuple(
        ScopedLimit(f"{layer}:{owner}/{limit.id}", layer, owner, limit, place) for limit in limits
    )
