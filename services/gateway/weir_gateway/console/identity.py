"""Who looks at the console, and what he may see."""

from dataclasses import dataclass
from enum import StrEnum

from weir_core.errors import Reason, WeirError

_OF_TENANTS = ("overview", "tenants", "queue", "requests", "playground", "slo")
_OF_ADMINS = (
    "overview",
    "tenants",
    "queue",
    "kv",
    "requests",
    "fairness",
    "playground",
    "workers",
    "slo",
    "directory",
    "configuration",
    "audit",
)


class Role(StrEnum):
    """What somebody may see."""

    ADMIN = "admin"
    TENANT = "tenant"


class Method(StrEnum):
    """How somebody proved who he is."""

    SECRET = "secret"
    KEY = "key"
    OIDC = "oidc"


@dataclass(frozen=True, slots=True)
class Identity:
    """Somebody who has signed in.

    Attributes:
        role, method: see there.
        name: for people, and of changes in the audit trail.
        tenant_id: of the role tenant; empty for administrators.
        user_id, key_id: of the method key.
    """

    role: Role
    method: Method
    name: str
    tenant_id: str = ""
    user_id: str = ""
    key_id: str = ""

    @property
    def is_admin(self) -> bool:
        """Whether everything may be seen and changed."""
        return self.role is Role.ADMIN

    @property
    def pages(self) -> tuple[str, ...]:
        """Names of the pages that there are for this role."""
        return _OF_ADMINS if self.is_admin else _OF_TENANTS

    def require_admin(self) -> None:
        """Raises WeirError(PERMISSION_DENIED) for a tenant."""
        if not self.is_admin:
            raise WeirError(
                Reason.PERMISSION_DENIED, "this page is for administrators; sign in with the secret"
            )

    def scope(self, asked: str) -> str:
        """The tenant that an answer is about; empty, for administrators alone: everybody.

        Args:
            asked: by the caller; empty for what it may see.

        Raises:
            WeirError: NOT_FOUND for another tenant, as for one that there is not.
        """
        if self.is_admin:
            return asked
        if asked not in ("", self.tenant_id):
            raise no_tenant("tenant")
        return self.tenant_id


def no_tenant(field: str) -> WeirError:
    """The same whether there is none, or it is another's."""
    return WeirError(Reason.NOT_FOUND, "there is no such tenant", field=field)
