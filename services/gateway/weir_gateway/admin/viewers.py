"""Who may see how much: administrators everything, a caller its own tenant's share."""

from weir_core.errors import WeirError
from weir_gateway.admin.secret import AdminGuard
from weir_gateway.flow.reception import Reception


class Viewers:
    """Lets viewers in.

    Args:
        reception: lets callers in.
        admin: lets administrators in; None where there is no admin secret.
    """

    def __init__(self, reception: Reception, admin: AdminGuard | None) -> None:
        self._reception = reception
        self._admin = admin

    def tenant_of(self, header: str) -> str:
        """Whose share the bearer of a header may see; empty for everything.

        A call of a tenant counts as one that reserves nothing.

        Raises:
            WeirError: it is nobody's.
        """
        if self._is_admin(header):
            return ""
        return self._reception.let_in(header).tenant_id

    def check_standing(self, header: str) -> None:
        """Raises WeirError when the bearer may no longer see it: a key may have been revoked."""
        if not self._is_admin(header):
            self._reception.authenticate(header)

    def _is_admin(self, header: str) -> bool:
        if self._admin is None:
            return False
        try:
            self._admin.check(header)
        except WeirError:
            return False
        return True
