"""What changed between two versions of the directory."""

from collections.abc import Iterable
from typing import Any

from weir.directory.v1.directory_pb2 import Snapshot
from weir.directory.v1.directory_service_pb2 import Delta
from weir_core.directory.delta import object_id


def difference(old: Snapshot, new: Snapshot) -> Delta:
    """The delta that makes `new` of `old`, but for the order of objects."""
    delta = Delta(base_version=old.version)
    changed = delta.changed
    changed.version = new.version
    delta.removed_tenants.extend(_compare(old.tenants, new.tenants, changed.tenants))
    delta.removed_users.extend(_compare(old.users, new.users, changed.users))
    delta.removed_api_keys.extend(_compare(old.api_keys, new.api_keys, changed.api_keys))
    delta.removed_plans.extend(_compare(old.plans, new.plans, changed.plans))
    delta.removed_models.extend(_compare(old.models, new.models, changed.models))
    same_limits = list(old.cluster_limits) == list(new.cluster_limits)
    if not same_limits or list(old.pools) != list(new.pools):
        delta.replace_cluster = True
        changed.cluster_limits.extend(new.cluster_limits)
        changed.pools.extend(new.pools)
    return delta


def is_empty(delta: Delta) -> bool:
    """Whether nothing changed."""
    bare = Delta(base_version=delta.base_version)
    bare.changed.version = delta.changed.version
    return delta == bare


def _compare(old: Iterable[Any], new: Iterable[Any], changed: Any) -> list[str]:
    """Adds changed and new objects to `changed`; returns the ids of removed ones."""
    before = {object_id(entry): entry for entry in old}
    after = {object_id(entry): entry for entry in new}
    changed.extend(entry for name, entry in after.items() if before.get(name) != entry)
    return [name for name in before if name not in after]
