"""Whether what is set for login by OpenID Connect can work."""

from importlib.util import find_spec
from urllib.parse import urlsplit

from weir_core.errors.startup import StartupError
from weir_core.host_port import is_loopback
from weir_gateway.console.identity import Role
from weir_gateway.console.settings import ConsoleSettings

TENANT = "tenant:"


def check_oidc(settings: ConsoleSettings) -> None:
    """Raises StartupError, one line, for what is missing or cannot be."""
    if not settings.oidc_issuer:
        return
    for name in ("oidc_client_id", "public_url", "oidc_claim"):
        if not getattr(settings, name):
            raise StartupError(f"console.{name} is empty; console.oidc_issuer needs it")
    for name in ("oidc_issuer", "public_url"):
        if not is_private(str(getattr(settings, name))):
            raise StartupError(f"console.{name} must be an https URL; http is for this host alone")
    if not settings.oidc_roles:
        raise StartupError(
            "console.oidc_roles is empty, and would let nobody in; give roles by value of the "
            'claim, such as {"platform": "admin", "acme": "tenant:acme"}'
        )
    for value, role in settings.oidc_roles.items():
        if role != Role.ADMIN and not (role.startswith(TENANT) and role != TENANT):
            raise StartupError(
                f"console.oidc_roles gives {value!r} the role {role!r}; it must be admin, or "
                "tenant:ID"
            )
    if find_spec("joserfc") is None:
        raise StartupError("console.oidc_issuer needs joserfc: pip install 'tokenweir[oidc]'")


def is_private(url: str) -> bool:
    """Whether what is said there is heard by nobody else: https, or this very host."""
    parts = urlsplit(url)
    if parts.scheme == "https" and parts.hostname:
        return True
    return parts.scheme == "http" and is_loopback(f"{parts.hostname}:{parts.port or 80}")
