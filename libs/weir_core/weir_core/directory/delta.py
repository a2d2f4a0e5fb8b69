"""Applies a delta of the directory to a snapshot."""

from collections.abc import Collection, Iterable
from typing import Any

from weir.directory.v1.directory_pb2 import Snapshot
from weir.directory.v1.directory_service_pb2 import Delta


def apply_delta(base: Snapshot, delta: Delta) -> Snapshot:
    """Returns the snapshot that `delta` makes of `base`.

    Raises:
        ValueError: the delta was made from another version.
    """
    if delta.base_version != base.version:
        raise ValueError(f"delta applies to version {delta.base_version}, not {base.version}")
    changed = delta.changed
    result = Snapshot(version=changed.version)
    result.tenants.extend(_merged(base.tenants, changed.tenants, delta.removed_tenants))
    result.users.extend(_merged(base.users, changed.users, delta.removed_users))
    result.api_keys.extend(_merged(base.api_keys, changed.api_keys, delta.removed_api_keys))
    result.plans.extend(_merged(base.plans, changed.plans, delta.removed_plans))
    result.models.extend(_merged(base.models, changed.models, delta.removed_models))
    cluster = changed if delta.replace_cluster else base
    result.cluster_limits.extend(cluster.cluster_limits)
    result.pools.extend(cluster.pools)
    return result


def object_id(entry: Any) -> str:
    """What a delta calls an object by: `name` of models, `tenant/id` of users, else `id`."""
    kind = entry.DESCRIPTOR.name
    if kind == "Model":
        return str(entry.name)
    return f"{entry.tenant_id}/{entry.id}" if kind == "User" else str(entry.id)


def _merged(old: Iterable[Any], changed: Iterable[Any], removed: Collection[str]) -> list[Any]:
    entries = {object_id(entry): entry for entry in old}
    entries.update({object_id(entry): entry for entry in changed})
    return [entry for name, entry in entries.items() if name not in removed]
