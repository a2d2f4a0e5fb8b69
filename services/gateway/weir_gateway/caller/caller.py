"""Who is asking: a key, its user, tenant and plan, as one version of the directory has them."""

from dataclasses import dataclass

from weir.directory.v1.directory_pb2 import Policy


@dataclass(frozen=True, slots=True)
class Caller:
    """An authenticated caller.

    Attributes:
        tenant_id, user_id, key_id, plan_id: ids in the directory; `key_id` is public.
        policy: the tenant's, over its plan's.
        key_models: models that the key is for; empty for all.
        expire_us: Unix microseconds after which the key is no longer valid; 0 for never.
        version: of the directory.
    """

    tenant_id: str
    user_id: str
    key_id: str
    plan_id: str
    policy: Policy
    key_models: frozenset[str]
    expire_us: int
    version: int

    def may_use(self, model: str) -> bool:
        """Whether tenant and key both allow a model, by its public name."""
        allowed = self.policy.allowed_models
        return (not allowed or model in allowed) and (
            not self.key_models or model in self.key_models
        )
