"""The next version of the directory, made of the one before and of the rows that changed.

A change costs what it touches: its tenants are checked and built again, with all plans, models
and pools, and nobody else. Thousands of tenants would otherwise hold up every request of a
gateway, for seconds, whenever one key is revoked.
"""

from collections.abc import Collection, Iterable, Iterator
from typing import Any

from weir.directory.v1.directory_pb2 import Snapshot
from weir.directory.v1.directory_service_pb2 import Delta
from weir_core.directory import DirectoryIndex
from weir_gateway.directory.checks import RuleBroken
from weir_gateway.directory.owner import Owner
from weir_gateway.directory.snapshot_builder import build_snapshot
from weir_gateway.directory.sql.assembly import Assembler
from weir_gateway.directory.sql.find import find
from weir_gateway.directory.sql.records import Kind, Name, Records

_LISTS = {
    Kind.TENANT: "tenants",
    Kind.USER: "users",
    Kind.KEY: "api_keys",
    Kind.PLAN: "plans",
    Kind.MODEL: "models",
}


def whole(assembler: Assembler, records: Records, version: int) -> DirectoryIndex:
    """The directory of all rows. Raises EntryInvalid and RuleBroken."""
    return DirectoryIndex(build_snapshot(assembler.document(records), version))


def advanced(
    assembler: Assembler,
    before: DirectoryIndex,
    records: Records,
    names: Collection[Name],
    version: int,
) -> tuple[DirectoryIndex, Delta | None]:
    """The directory of `records`, and the delta that makes it of `before`; None if not known.

    Args:
        before: what was published last.
        names: of every row that changed since then.

    Raises:
        EntryInvalid, RuleBroken: the rows break a rule.
    """
    if any(kind is Kind.MODEL and records.get(kind, name) is None for kind, name in names):
        # Anybody may name a model that is gone.
        return whole(assembler, records, version), None
    touched = set(_touched(records, names))
    after = build_snapshot(assembler.part(records, sorted(touched)), version)
    delta = Delta(base_version=before.version)
    delta.changed.version = version
    index = DirectoryIndex(after)
    of_tenants = {(one.kind, one.id) for name in touched for one in records.of_tenant(name)}
    for kind, name in sorted({*names, *of_tenants}):
        if kind in _LISTS:
            _compare(delta, kind, name, find(before, kind, name), find(index, kind, name))
    if any(kind in (Kind.POOL, Kind.CLUSTER) for kind, _ in names):
        delta.replace_cluster = True
        delta.changed.cluster_limits.extend(after.cluster_limits)
        delta.changed.pools.extend(after.pools)
    _check_hashes(before, delta.changed, names)
    return before.changed_by(delta), delta


def _touched(records: Records, names: Iterable[Name]) -> Iterator[str]:
    """Tenants whose rules or messages may change with rows of those names."""
    yield from (pool.tenant_id for pool in records.of(Kind.POOL) if pool.tenant_id)
    for kind, name in names:
        if kind is Kind.TENANT:
            yield name
        elif kind is Kind.PLAN:
            gone = records.get(kind, name) is None
            for tenant in records.of(Kind.TENANT):
                # A window of the tenant's own takes the time zone of the plan's.
                if tenant.body.get("plan") == name and (gone or _has_window(tenant.body)):
                    yield tenant.id
        elif kind is Kind.MODEL:
            for tenant in records.of(Kind.TENANT):
                if name in tenant.body.get("parameters", ()):
                    yield tenant.id
        elif (record := records.any(kind, name)) is not None and record.tenant_id:
            yield record.tenant_id


def _has_window(body: dict[str, Any]) -> bool:
    return any("window" in limit for limit in body.get("limits", ()))


def _compare(delta: Delta, kind: Kind, name: str, old: Any, new: Any) -> None:
    if new is None:
        if old is not None:
            getattr(delta, f"removed_{_LISTS[kind]}").append(name)
    elif new != old:
        getattr(delta.changed, _LISTS[kind]).append(new)


def _check_hashes(before: DirectoryIndex, changed: Snapshot, names: Collection[Name]) -> None:
    """A hash is one key's over all tenants; within the changed ones that is checked already."""
    for key in changed.api_keys:
        for digest in key.hashes:
            known = before.key_by_hash(digest)
            if known is not None and known.id != key.id and (Kind.KEY, known.id) not in names:
                raise RuleBroken(Owner("keys", ("tenants",)), "two of them have the same hash")
