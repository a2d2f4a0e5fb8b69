"""Proves that a session which another gateway kept was opened by one."""

import hmac
from collections.abc import Mapping
from dataclasses import asdict

import orjson
from pydantic import SecretStr

from weir_gateway.console.identity import Identity, Method
from weir_gateway.console.settings import ConsoleSettings


class SessionSeal:
    """Seals sessions with what the gateways of a deployment share.

    What somebody signed in with is part of it: sessions end when the admin secret changes, and
    those of single sign-on when the roles do.

    Args:
        token: cluster secret.
        secret: the administrator's, if there is one.
        settings: of the console.
    """

    def __init__(
        self, token: SecretStr, secret: SecretStr | None, settings: ConsoleSettings
    ) -> None:
        self._key = token.get_secret_value().encode()
        provider = (settings.oidc_issuer, settings.oidc_client_id, settings.oidc_claim)
        self._shown: Mapping[Method, object] = {
            Method.SECRET: None if secret is None else secret.get_secret_value(),
            Method.KEY: None,
            Method.OIDC: (provider, sorted(settings.oidc_roles.items())),
        }

    def of(self, name: str, who: Identity, ends_ms: int) -> str:
        """The seal of a session."""
        sealed = orjson.dumps([name, asdict(who), ends_ms, self._shown[who.method]])
        return hmac.digest(self._key, b"console session " + sealed, "sha256").hex()
