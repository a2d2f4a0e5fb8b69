"""Signing in and out."""

import hmac
from typing import Any

from pydantic import SecretStr
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from weir_core.errors import InvalidField, Reason, WeirError
from weir_core.errors.refusal import rfc3339
from weir_core.telemetry.logs import get_logger
from weir_gateway.admin.secret import VARIABLE
from weir_gateway.caller.authenticator import Authenticator
from weir_gateway.console.gate import Gate, read_object, to_json
from weir_gateway.console.identity import Identity, Method, Role
from weir_gateway.console.login_throttle import LoginThrottle
from weir_gateway.console.session_store import Session
from weir_gateway.console.settings import ConsoleSettings
from weir_gateway.console.visit import Visit

_log = get_logger(__name__)

_KEY = "wr_"
_LONGEST = 512


class Login:
    """Opens sessions.

    Args:
        gate, throttle, authenticator: see there.
        settings: of the console.
        secret: the administrator's; None: nobody signs in by it.
        version: of the product.
        audited: whether changes are kept.
    """

    def __init__(
        self,
        gate: Gate,
        throttle: LoginThrottle,
        authenticator: Authenticator,
        settings: ConsoleSettings,
        secret: SecretStr | None,
        *,
        version: str,
        audited: bool,
    ) -> None:
        self._gate = gate
        self._throttle = throttle
        self._authenticator = authenticator
        self._settings = settings
        self._secret = secret
        self._version = version
        self._audited = audited

    def routes(self) -> list[Route]:
        """Under `/console/api`."""
        return [
            Route("/login", self._methods, methods=["GET"]),
            Route("/login", self._sign_in, methods=["POST"]),
            self._gate.get("/session", self._show),
            self._gate.post("/logout", self._sign_out),
        ]

    async def open(self, request: Request, who: Identity, response: Response) -> Session:
        """Begins a session and lets `response` set its cookie. Raises WeirError."""
        cookie, session = self._gate.sessions.open(who)
        await self._gate.shared.opened(session)
        response.set_cookie(
            self._gate.cookie_name(request),
            cookie,
            path="/console",
            secure=self._gate.origins.is_secure(request),
            httponly=True,
            samesite="strict",
        )
        _log.info("console_signed_in", role=who.role.value, method=who.method.value, name=who.name)
        return session

    async def _methods(self, request: Request) -> Response:
        methods = ["secret"] if self._secret is not None else []
        oidc = None
        if self._settings.oidc_issuer:
            oidc = {"label": self._settings.oidc_label, "url": "/console/api/oidc/start"}
        shown = [*methods, "key", *(["oidc"] if oidc else [])]
        return to_json(
            {"methods": shown, "oidc": oidc, "tls": self._gate.origins.is_secure(request)}
        )

    async def _sign_in(self, request: Request) -> Response:
        self._gate.origins.check(request)
        address = request.client.host if request.client is not None else ""
        self._throttle.check(address)
        credential = (await read_object(request)).get("credential")
        # Again: of many that came at once, all may have passed before one of them failed.
        self._throttle.check(address)
        if not isinstance(credential, str) or not 0 < len(credential.strip()) <= _LONGEST:
            raise InvalidField("credential", "not shown", "the admin secret, or an API key")
        try:
            who = self._identify(credential.strip())
        except WeirError:
            self._throttle.failed(address)
            raise
        response = Response(media_type="application/json")
        session = await self.open(request, who, response)
        response.body = to_json(self._told(session)).body
        response.headers["content-length"] = str(len(response.body))
        return response

    def _identify(self, credential: str) -> Identity:
        if credential.startswith(_KEY):
            caller = self._authenticator.authenticate(f"Bearer {credential}")
            return Identity(
                Role.TENANT,
                Method.KEY,
                f"{caller.tenant_id}/{caller.user_id}",
                caller.tenant_id,
                caller.user_id,
                caller.key_id,
            )
        sent = credential.encode("utf-8", errors="surrogatepass")
        secret = self._secret
        if secret is None:
            raise WeirError(
                Reason.API_KEY_INVALID,
                f"no admin secret is set: set {VARIABLE} of the gateway, or sign in with an API "
                "key (wr_...)",
            )
        if not hmac.compare_digest(sent, secret.get_secret_value().encode()):
            raise WeirError(
                Reason.API_KEY_INVALID,
                f"this is neither the admin secret, which {VARIABLE} of the gateway holds, nor an "
                "API key (wr_...)",
            )
        return Identity(Role.ADMIN, Method.SECRET, "admin")

    async def _show(self, visit: Visit) -> Any:
        return self._told(visit.session)

    async def _sign_out(self, visit: Visit) -> Response:
        self._gate.sessions.end(visit.session)
        await self._gate.shared.tell_ended()
        response = Response(status_code=204)
        response.delete_cookie(
            self._gate.cookie_name(visit.request),
            path="/console",
            secure=self._gate.origins.is_secure(visit.request),
            httponly=True,
            samesite="strict",
        )
        return response

    def _told(self, session: Session) -> dict[str, Any]:
        who = session.identity
        return {
            "role": who.role.value,
            "name": who.name,
            "tenant": who.tenant_id or None,
            "user": who.user_id or None,
            "key": who.key_id or None,
            "method": who.method.value,
            "csrf": session.csrf,
            "idle_s": self._settings.idle_s,
            "expire_time": rfc3339(session.expire_ms),
            "pages": list(who.pages),
            "version": self._version,
            "audited": self._audited,
        }
