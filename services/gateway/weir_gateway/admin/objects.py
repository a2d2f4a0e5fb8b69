"""Puts, reads and removes tenants, users, plans, models, pools and the cluster's limits."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from weir.directory.v1.directory_pb2 import Limit, Snapshot
from weir_core.directory import DirectoryIndex
from weir_core.errors import InvalidField, Reason, WeirError
from weir_gateway.directory.checks import RuleBroken
from weir_gateway.directory.publisher import DirectoryPublisher
from weir_gateway.directory.sql.bootstrap import CLUSTER_ID
from weir_gateway.directory.sql.entry_form import (
    Form,
    limit_forms,
    model_form,
    plan_form,
    tenant_form,
    user_form,
)
from weir_gateway.directory.sql.find import find
from weir_gateway.directory.sql.pool_form import pool_form
from weir_gateway.directory.sql.records import Draft, Kind, Record, Sent
from weir_gateway.directory.sql.source import SqlDirectory

_FORMS: dict[Kind, Callable[[Any], Form]] = {
    Kind.TENANT: tenant_form,
    Kind.USER: user_form,
    Kind.PLAN: plan_form,
    Kind.MODEL: model_form,
    Kind.POOL: pool_form,
}
_KNOBS = {
    Kind.TENANT: "tenant_id",
    Kind.USER: "user_id",
    Kind.PLAN: "plan_id",
    Kind.MODEL: "model_name",
    Kind.POOL: "pool_name",
}
_NAMED = frozenset({Kind.MODEL, Kind.POOL})
_LONGEST_ID = 128


@dataclass(frozen=True, slots=True)
class Stored:
    """An object as it is stored, and the directory's version with it."""

    message: Any
    version: int


class Objects:
    """What an administrator does with objects other than keys. Methods raise WeirError."""

    def __init__(self, source: SqlDirectory, publisher: DirectoryPublisher) -> None:
        self._source = source
        self._publisher = publisher

    async def put(self, actor: str, kind: Kind, message: Any, expected: int) -> Stored:
        """Creates or replaces an object, unless it changed after version `expected`."""
        record = _record(kind, message)

        def edit(draft: Draft) -> None:
            if kind is Kind.USER:
                draft.get(Kind.TENANT, message.tenant_id, "user.tenant_id")
            if kind is Kind.TENANT:
                _refuse_reuse(draft, record.id)
            draft.guard(kind, record.id, expected)
            draft.sent.append(Sent(kind, record.id, message))
            draft.put(record, "put")

        changed = await self._source.change(actor, edit)
        return Stored(find(changed.index, kind, record.id), changed.version)

    def get(self, kind: Kind, name: str) -> Stored:
        """Reads one object."""
        index = self._index
        message = find(index, kind, name)
        if message is None:
            knob = _KNOBS[kind]
            raise WeirError(Reason.NOT_FOUND, f"{knob}: there is no {kind} {name!r}", field=knob)
        return Stored(message, self._source.version)

    async def delete(self, actor: str, kind: Kind, name: str) -> int:
        """Removes an object with what belongs to it; returns the directory's version."""

        def edit(draft: Draft) -> None:
            record = draft.get(kind, name, _KNOBS[kind])
            for owned in _belongings(draft, record):
                draft.remove(owned)
            draft.remove(record)

        try:
            return (await self._source.change(actor, edit)).version
        except WeirError as error:
            if isinstance(error.__cause__, RuleBroken):
                raise _in_use(kind, name, error.message) from None
            raise

    async def put_cluster_limits(
        self, actor: str, limits: Iterable[Limit], expected: int
    ) -> tuple[list[Limit], int]:
        """Replaces the limits over everybody; returns them with the directory's version."""
        try:
            record = Record(Kind.CLUSTER, CLUSTER_ID, "", {"limits": limit_forms(limits)})
        except ValueError as error:
            raise WeirError(Reason.INVALID_FIELD, f"limits: {error}", field="limits") from None
        message = Snapshot(cluster_limits=limits)

        def edit(draft: Draft) -> None:
            draft.guard(Kind.CLUSTER, CLUSTER_ID, expected)
            draft.sent.append(Sent(Kind.CLUSTER, CLUSTER_ID, message))
            draft.put(record, "put")

        changed = await self._source.change(actor, edit)
        return list(changed.index.snapshot.cluster_limits), changed.version

    @property
    def version(self) -> int:
        """Of the directory that is read."""
        return self._source.version

    @property
    def snapshot(self) -> Any:
        """The present version, to list from."""
        return self._index.snapshot

    @property
    def _index(self) -> DirectoryIndex:
        return self._publisher.required


def _refuse_reuse(draft: Draft, tenant_id: str) -> None:
    """Files, answers, budgets and bills of a removed tenant are still under its id."""
    known = draft.before.any(Kind.TENANT, tenant_id)
    if known is not None and known.deleted:
        raise WeirError(
            Reason.STATE_CONFLICT,
            f"tenant.id: {tenant_id!r} was that of a tenant that was removed, whose files, answers "
            "and bills are still kept under it; give the new tenant another id",
            field="tenant.id",
        )


def user_name(tenant_id: str, user_id: str) -> str:
    """How the directory calls a user.

    Raises:
        InvalidField: the tenant is not named.
    """
    if not tenant_id:
        raise InvalidField("tenant_id", tenant_id, "the tenant of the user")
    return f"{tenant_id}/{user_id}"


def _record(kind: Kind, message: Any) -> Record:
    name = message.name if kind in _NAMED else message.id
    if not name or len(name) > _LONGEST_ID:
        field = f"{kind}.{'name' if kind in _NAMED else 'id'}"
        raise InvalidField(field, name, f"1 to {_LONGEST_ID} characters")
    try:
        form = _FORMS[kind](message)
    except ValueError as error:  # a value of an enumeration that this release does not know
        raise WeirError(Reason.INVALID_FIELD, f"{kind}: {error}", field=kind) from None
    if kind is Kind.USER:
        return Record(kind, user_name(message.tenant_id, name), message.tenant_id, form)
    if kind is Kind.POOL:
        return Record(kind, name, message.tenant_id, form)
    return Record(kind, name, name if kind is Kind.TENANT else "", form)


def _belongings(draft: Draft, record: Record) -> list[Record]:
    """Keys of a user; users and keys of a tenant."""
    if record.kind is Kind.TENANT:
        owned = draft.before.of_tenant(record.id)
        return [one for kind in (Kind.KEY, Kind.USER) for one in owned if one.kind is kind]
    if record.kind is Kind.USER:
        owned = draft.before.of_tenant(record.tenant_id)
        keys = (one for one in owned if one.kind is Kind.KEY)
        return [key for key in keys if key.body["user"] == record.body["id"]]
    return []


def _in_use(kind: Kind, name: str, problem: str) -> WeirError:
    return WeirError(
        Reason.INVALID_FIELD,
        f"{_KNOBS[kind]}: the {kind} {name!r} cannot be removed: without it, {problem}",
        field=_KNOBS[kind],
    )
