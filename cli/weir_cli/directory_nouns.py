"""Tenants, users, plans, models and pools: what the commands about them call and print."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from weir.directory.v1.directory_pb2 import Limit, Model, Plan, Pool, Tenant, User
from weir.gateway.v1 import admin_service_pb2 as pb
from weir_cli.directory_text import Form
from weir_cli.errors import CommandError
from weir_gateway.directory.document import (
    ClusterEntry,
    Document,
    ModelEntry,
    PlanEntry,
    PoolEntry,
    UserEntry,
)
from weir_gateway.directory.snapshot_builder import build_snapshot
from weir_gateway.directory.sql.assembly import StoredTenantEntry
from weir_gateway.directory.sql.entry_form import model_form, plan_form, tenant_form, user_form
from weir_gateway.directory.sql.pool_form import pool_form

Call = Callable[..., Awaitable[Any]]
_ANY_PLAN = "any"
_TOLD = {
    "extra_forbidden": "there is no such field; docs/configuration.md#directory-file has them all",
    "missing": "the file must say it",
}


@dataclass(frozen=True, slots=True)
class Noun:
    """One kind of object.

    Attributes:
        name: of one, such as `tenant`; the field of the messages too.
        rpc: how the RPCs call one, such as `Tenant`.
        columns: fields that a table shows.
        form: an object in the form of the directory file.
        read: an object of that form.
        key: fields of a request that name an object, by its name on the command line.
    """

    name: str
    rpc: str
    columns: tuple[str, ...]
    form: Callable[[Any], Form]
    read: Callable[[Form], Any]
    key: Callable[[str], dict[str, str]]

    def request(self, verb: str, **fields: Any) -> Any:
        """The request of an RPC, such as of verb `Get`."""
        return getattr(pb, f"{verb}{self.rpc}{'s' if verb == 'List' else ''}Request")(**fields)

    def call(self, stub: Any, verb: str) -> Call:
        """The RPC of a verb."""
        rpc: Call = getattr(stub, f"{verb}{self.rpc}{'s' if verb == 'List' else ''}")
        return rpc


def read_form(file: Path) -> Form:
    """The mapping of a YAML or JSON file. Raises CommandError."""
    try:
        form = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise CommandError(f"{file}: {error}") from None
    if not isinstance(form, dict):
        raise CommandError(f"{file}: it must hold a mapping, as an entry of the directory file")
    return form


def _read_tenant(form: Form) -> Tenant:
    for owned in ("users", "keys"):
        if form.get(owned):
            raise CommandError(f"{owned}: put them on their own, with `weir {owned}`")
    entry = _validated(lambda: StoredTenantEntry.model_validate(form))
    return build_snapshot(Document(tenants=(entry,)), 0).tenants[0]


def _read_user(form: Form) -> User:
    own = dict(form)
    tenant = own.pop("tenant", None)
    if not isinstance(tenant, str) or not tenant:
        raise CommandError("tenant: the file must say which tenant the user is of")
    entry = _validated(lambda: UserEntry.model_validate(own))
    owner = StoredTenantEntry.model_construct(id=tenant, plan=_ANY_PLAN, users=(entry,))
    return build_snapshot(Document.model_construct(tenants=(owner,)), 0).users[0]


def _read_plan(form: Form) -> Plan:
    entry = _validated(lambda: PlanEntry.model_validate(form))
    return build_snapshot(Document(plans=(entry,)), 0).plans[0]


def _read_model(form: Form) -> Model:
    entry = _validated(lambda: ModelEntry.model_validate(form))
    return build_snapshot(Document(models=(entry,)), 0).models[0]


def _read_pool(form: Form) -> Pool:
    entry = _validated(lambda: PoolEntry.model_validate(form))
    return build_snapshot(Document(pools=(entry,)), 0).pools[0]


def read_cluster_limits(form: Form) -> list[Limit]:
    """The limits of an entry `cluster` of the directory file. Raises CommandError."""
    entry = _validated(lambda: ClusterEntry.model_validate(form))
    return list(build_snapshot(Document(cluster=entry), 0).cluster_limits)


def _validated(read: Callable[[], Any]) -> Any:
    try:
        return read()
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        told = _TOLD.get(first["type"], first["msg"].removeprefix("Value error, "))
        raise CommandError(f"{_place(first['loc'])}: {told}") from None


def _place(location: tuple[int | str, ...]) -> str:
    steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in location)
    return "".join(steps).removeprefix(".") or "file"


def _user_key(name: str) -> dict[str, str]:
    tenant, slash, user = name.partition("/")
    if not slash:
        raise CommandError(f"{name!r} is no user; write TENANT/USER")
    return {"tenant_id": tenant, "user_id": user}


TENANT = Noun(
    "tenant",
    "Tenant",
    ("id", "name", "plan", "suspended", "limits"),
    tenant_form,
    _read_tenant,
    lambda name: {"tenant_id": name},
)
USER = Noun(
    "user",
    "User",
    ("tenant", "id", "name", "limits"),
    lambda user: {"tenant": user.tenant_id, **user_form(user)},
    _read_user,
    _user_key,
)
PLAN = Noun(
    "plan",
    "Plan",
    ("id", "limits", "policy"),
    plan_form,
    _read_plan,
    lambda name: {"plan_id": name},
)
MODEL = Noun(
    "model",
    "ServedModel",
    ("name", "aliases", "versions", "max_context", "pool", "limits"),
    model_form,
    _read_model,
    lambda name: {"model_name": name},
)
POOL = Noun(
    "pool",
    "Pool",
    ("name", "isolation", "scheduler_policy", "tenant", "class", "length", "profiles"),
    pool_form,
    _read_pool,
    lambda name: {"pool_name": name},
)
