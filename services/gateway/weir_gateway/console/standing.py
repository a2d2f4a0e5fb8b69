"""Whether somebody who signed in earlier is still welcome."""

from weir_core.errors import Reason, WeirError
from weir_gateway.caller.authenticator import Authenticator
from weir_gateway.console.identity import Identity, Method
from weir_gateway.directory.follower import Directory


class Standing:
    """Looks it up in the current directory.

    Args:
        directory, authenticator: see there.
    """

    def __init__(self, directory: Directory, authenticator: Authenticator) -> None:
        self._directory = directory
        self._authenticator = authenticator

    def check(self, who: Identity) -> None:
        """Raises WeirError: a key is revoked or has expired, or a tenant is suspended or gone."""
        if who.method is Method.KEY:
            self._authenticator.standing(who.tenant_id, who.key_id)
        elif not who.is_admin:
            tenant = self._directory.required.tenant(who.tenant_id)
            if tenant is None or tenant.suspended:
                raise WeirError(
                    Reason.TENANT_SUSPENDED, "the account is suspended; ask its administrator"
                )
