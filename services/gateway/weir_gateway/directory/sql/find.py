"""Objects of an index by the names of their rows."""

from typing import Any

from weir.directory.v1.directory_pb2 import Snapshot
from weir_core.directory import DirectoryIndex
from weir_gateway.directory.sql.records import Kind


def find(index: DirectoryIndex, kind: Kind, name: str) -> Any:
    """The object of that id in an index; None when there is none."""
    if kind is Kind.USER:
        tenant_id, _, user_id = name.partition("/")
        return index.user(tenant_id, user_id)
    if kind is Kind.MODEL:
        model = index.model(name)
        return model if model is not None and model.name == name else None
    if kind is Kind.CLUSTER:
        return Snapshot(cluster_limits=index.limits_over_everybody)
    look_up = {
        Kind.TENANT: index.tenant,
        Kind.KEY: index.key,
        Kind.PLAN: index.plan,
        Kind.POOL: index.pool,
    }
    return look_up[kind](name)
