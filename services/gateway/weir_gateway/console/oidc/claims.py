"""What an ID token says of somebody, as a role here."""

from collections.abc import Mapping
from typing import Any

from weir_core.errors import Reason, WeirError
from weir_gateway.console.identity import Identity, Method, Role
from weir_gateway.console.oidc.checks import TENANT

_LONGEST_NAME = 100
_NAMES = ("preferred_username", "email", "name", "sub")


def identity_of(claims: Mapping[str, Any], claim: str, roles: Mapping[str, str]) -> Identity:
    """Who has signed in; an administrator where several values apply and one says so.

    Args:
        claims: of an ID token that was checked.
        claim: whose values say what he may do: a word, or a list of them.
        roles: by value.

    Raises:
        WeirError: PERMISSION_DENIED: no value has a role, or several tenants apply.
    """
    told = claims.get(claim)
    values = told if isinstance(told, list) else [told]
    found = {roles[value] for value in values if isinstance(value, str) and value in roles}
    name = _name(claims)
    if Role.ADMIN in found:
        return Identity(Role.ADMIN, Method.OIDC, name)
    if len(found) > 1:
        raise WeirError(
            Reason.PERMISSION_DENIED,
            f"the claim {claim} of {name} names several tenants; ask an administrator for one",
        )
    if not found:
        raise WeirError(
            Reason.PERMISSION_DENIED,
            f"the claim {claim} of {name} has no value with a role in console.oidc_roles",
        )
    return Identity(Role.TENANT, Method.OIDC, name, found.pop().removeprefix(TENANT))


def _name(claims: Mapping[str, Any]) -> str:
    for field in _NAMES:
        value = claims.get(field)
        if isinstance(value, str) and value.strip():
            return "".join(char for char in value if char.isprintable())[:_LONGEST_NAME]
    return "somebody"
