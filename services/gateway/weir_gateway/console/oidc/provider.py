"""Speaks with an OpenID Connect provider: where it is, its keys, a code for an ID token."""

import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import quote, urlencode

import httpx2

from weir_core.clock import Clock
from weir_core.errors import Reason, WeirError
from weir_core.telemetry.logs import get_logger
from weir_gateway.console.oidc.checks import is_private
from weir_gateway.console.oidc.pending import Attempt
from weir_gateway.console.settings import ConsoleSettings

_log = get_logger(__name__)

_TIMEOUT_S = 5.0
_KEPT_US = 3_600 * 1_000_000
_AGAIN_US = 10 * 1_000_000
_MOST_BYTES = 1_000_000
_LEEWAY_S = 60
_ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA"]
_ENDPOINTS = ("authorization_endpoint", "token_endpoint", "jwks_uri")


class Provider:
    """One provider.

    Args:
        settings: of the console.
        clock: time.
        redirect_uri: where it sends people back to.
    """

    def __init__(self, settings: ConsoleSettings, clock: Clock, redirect_uri: str) -> None:
        self._settings = settings
        self._clock = clock
        self._redirect_uri = redirect_uri
        self._http = httpx2.AsyncClient(timeout=_TIMEOUT_S, follow_redirects=False)
        self._places: dict[str, str] = {}
        self._keys: Any = None
        self._read_us = -_KEPT_US

    async def authorization_url(self, attempt: Attempt) -> str:
        """Where to send a browser. Raises WeirError."""
        await self._discover()
        scopes = dict.fromkeys(["openid", *self._settings.oidc_scopes.split()])
        query = {
            "response_type": "code",
            "client_id": self._settings.oidc_client_id,
            "redirect_uri": self._redirect_uri,
            "scope": " ".join(scopes),
            "state": attempt.state,
            "nonce": attempt.nonce,
            "code_challenge": attempt.challenge,
            "code_challenge_method": "S256",
        }
        endpoint = self._places["authorization_endpoint"]
        return f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(query)}"

    async def claims(self, attempt: Attempt, code: str) -> Mapping[str, Any]:
        """What the ID token says that the provider gives for a code, checked. Raises WeirError."""
        await self._discover()
        told = await self._exchange(attempt, code)
        token = told.get("id_token")
        if not isinstance(token, str):
            raise _failed("it gave no ID token")
        return await self._checked(token, attempt.nonce)

    async def close(self) -> None:
        """Closes its connections."""
        await self._http.aclose()

    async def _exchange(self, attempt: Attempt, code: str) -> dict[str, Any]:
        secret = self._settings.oidc_client_secret
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self._redirect_uri,
            "client_id": self._settings.oidc_client_id,
            "code_verifier": attempt.verifier,
        }
        auth = None
        if secret is not None:
            # As RFC 6749, 2.3.1 wants them in the header.
            auth = httpx2.BasicAuth(
                quote(self._settings.oidc_client_id, safe=""),
                quote(secret.get_secret_value(), safe=""),
            )
        return await self._ask("POST", self._places["token_endpoint"], data=form, auth=auth)

    async def _checked(self, token: str, nonce: str) -> Mapping[str, Any]:
        from joserfc import jwt
        from joserfc.errors import JoseError

        claims: Mapping[str, Any] = {}
        for again in (True, False):
            try:
                claims = jwt.decode(token, self._keys, algorithms=_ALGORITHMS).claims
                break
            except (JoseError, ValueError) as error:
                # The provider may have new keys.
                if not again or not await self._discover(anew=True):
                    raise _failed(f"its ID token cannot be trusted: {error}") from None
        registry = jwt.JWTClaimsRegistry(
            now=lambda: int(time.time()),
            leeway=_LEEWAY_S,
            iss={"essential": True, "value": self._settings.oidc_issuer},
            aud={"essential": True, "value": self._settings.oidc_client_id},
            exp={"essential": True},
            iat={"essential": True},
            sub={"essential": True},
            nonce={"essential": True, "value": nonce},
        )
        try:
            registry.validate(dict(claims))
        except JoseError as error:
            raise _failed(f"its ID token is not for this login: {error}") from None
        aud, mine = claims.get("aud"), self._settings.oidc_client_id
        # Of several that it is for, it says for which it was made.
        unnamed = None if isinstance(aud, list) and len(aud) > 1 else mine
        if claims.get("azp", unnamed) != mine:
            raise _failed("its ID token was made for another client")
        return claims

    async def _discover(self, *, anew: bool = False) -> bool:
        """Reads where the provider is and its keys, if they are old; whether it did."""
        age_us = self._clock.monotonic_us() - self._read_us
        if self._keys is not None and age_us < (_AGAIN_US if anew else _KEPT_US):
            return False
        from joserfc.errors import JoseError
        from joserfc.jwk import KeySet

        issuer = self._settings.oidc_issuer
        told = await self._ask("GET", f"{issuer.rstrip('/')}/.well-known/openid-configuration")
        if told.get("issuer") != issuer:
            raise _failed("it calls itself by another name than console.oidc_issuer")
        places = {name: str(told.get(name, "")) for name in _ENDPOINTS}
        if not all(is_private(url) for url in places.values()):
            raise _failed("not all of its endpoints are https URLs")
        keys: Any = await self._ask("GET", places["jwks_uri"])
        try:
            self._keys = KeySet.import_key_set(keys)
        except (JoseError, ValueError, KeyError, TypeError) as error:
            raise _failed(f"its keys cannot be read: {type(error).__name__}") from None
        self._places, self._read_us = places, self._clock.monotonic_us()
        return True

    async def _ask(self, method: str, url: str, **what: Any) -> dict[str, Any]:
        try:
            answer = await self._http.request(method, url, **what)
        except httpx2.HTTPError as error:
            raise _failed(f"it does not answer: {type(error).__name__}") from None
        told: Any = None
        with suppress(ValueError):
            told = answer.json() if len(answer.content) <= _MOST_BYTES else None
        if answer.status_code != httpx2.codes.OK or not isinstance(told, dict):
            code = told.get("error") if isinstance(told, dict) else None
            _log.warning("oidc_refused", status=answer.status_code, error=str(code)[:100])
            raise _failed(f"it answered {answer.status_code}")
        return told


def _failed(why: str) -> WeirError:
    return WeirError(Reason.PERMISSION_DENIED, f"the login provider: {why}")
