"""The bounds of tenants, as the directory has them now."""

from weir.directory.v1.directory_pb2 import KeepPolicy
from weir_gateway.directory.follower import Directory
from weir_gateway.holdings.bounds import (
    Bound,
    idempotency_bound,
    response_bound,
    webhook_bound,
)


class KeepPolicies:
    """Each method gives one bound of a tenant; the defaults while the directory is away.

    Args:
        directory: knows tenants.
    """

    def __init__(self, directory: Directory) -> None:
        self._directory = directory

    def responses(self, tenant_id: str) -> Bound:
        """Of responses."""
        return response_bound(self._of(tenant_id))

    def idempotency(self, tenant_id: str) -> Bound:
        """Of idempotency keys."""
        return idempotency_bound(self._of(tenant_id))

    def webhooks(self, tenant_id: str) -> Bound:
        """Of webhooks."""
        return webhook_bound(self._of(tenant_id))

    def _of(self, tenant_id: str) -> KeepPolicy:
        index = self._directory.index
        return KeepPolicy() if index is None else index.policy(tenant_id).keep
