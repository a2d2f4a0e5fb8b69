"""Signing in by an OpenID Connect provider: authorization code with PKCE."""

from html import escape
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from weir_core.clock import Clock
from weir_core.errors import Reason, WeirError
from weir_gateway.console.gate import Gate, deadline
from weir_gateway.console.login import Login
from weir_gateway.console.login_throttle import LoginThrottle
from weir_gateway.console.oidc.claims import identity_of
from weir_gateway.console.oidc.pending import Pending
from weir_gateway.console.oidc.provider import Provider
from weir_gateway.console.settings import ConsoleSettings
from weir_gateway.console.standing import Standing

_PATH = "/console/api/oidc"
_HOME = "/console/"
_LONGEST = 4_096


class OidcLogin:
    """The handlers.

    Args:
        gate, login, standing, throttle: see there.
        settings: of the console.
        clock: time.
    """

    def __init__(
        self,
        gate: Gate,
        login: Login,
        standing: Standing,
        throttle: LoginThrottle,
        settings: ConsoleSettings,
        clock: Clock,
    ) -> None:
        self._gate = gate
        self._login = login
        self._standing = standing
        self._throttle = throttle
        self._settings = settings
        self._pending = Pending(clock)
        back = f"{settings.public_url.rstrip('/')}{_PATH}/callback"
        self._provider = Provider(settings, clock, back)

    def routes(self) -> list[Route]:
        """Under `/console/api`."""
        return [
            Route("/oidc/start", self._start, methods=["GET"]),
            Route("/oidc/callback", self._callback, methods=["GET"]),
        ]

    async def close(self) -> None:
        """Closes connections to the provider."""
        await self._provider.close()

    async def _start(self, request: Request) -> Response:
        try:
            self._throttle.check(_address(request))
            attempt = self._pending.begin(_page(request.query_params.get("page", "")))
            async with deadline():
                url = await self._provider.authorization_url(attempt)
        except (WeirError, TimeoutError) as error:
            return _told(error)
        response = RedirectResponse(url, status_code=302)
        # Strict would not come back from the provider's site.
        response.set_cookie(
            self._cookie(request),
            attempt.browser,
            path=_PATH,
            max_age=600,
            secure=self._gate.origins.is_secure(request),
            httponly=True,
            samesite="lax",
        )
        return response

    async def _callback(self, request: Request) -> Response:
        try:
            async with deadline():
                return await self._finish(request)
        except (WeirError, TimeoutError) as error:
            self._throttle.failed(_address(request))
            return _told(error)

    async def _finish(self, request: Request) -> Response:
        query = request.query_params
        self._throttle.check(_address(request))
        browser = request.cookies.get(self._cookie(request), "")
        attempt = self._pending.take(query.get("state", ""), browser)
        if attempt is None:
            raise _refused("it was begun in another browser or too long ago; sign in again")
        if "error" in query:
            raise _refused(f"the provider said {_word(query['error'])}")
        code = query.get("code", "")
        if not 0 < len(code) <= _LONGEST:
            raise _refused("the provider sent no code")
        claims = await self._provider.claims(attempt, code)
        who = identity_of(claims, self._settings.oidc_claim, self._settings.oidc_roles)
        self._standing.check(who)
        # A page of ours, and not a redirect: what follows one from another site would not carry
        # the new cookie, which is Strict.
        to = _page(attempt.page)
        page = escape(to, quote=True)
        response = Response(
            f'<!doctype html><meta charset="utf-8"><title>Signed in</title>'
            f'<a href="{page}">Go on to the console</a>',
            media_type="text/html",
            headers={"refresh": f"0; url={to}"},
        )
        await self._login.open(request, who, response)
        response.delete_cookie(self._cookie(request), path=_PATH)
        return response

    def _cookie(self, request: Request) -> str:
        return f"{self._gate.cookie_name(request)}_oidc"


def _page(asked: str) -> str:
    """Only pages of the console are gone to."""
    plain = asked.isascii() and asked.isprintable() and not set(asked) & set("\\;\"'<> ")
    return asked if asked.startswith(_HOME) and plain and len(asked) <= 500 else _HOME


def _word(text: str) -> str:
    return "".join(char for char in text if char.isalnum() or char in "_- ")[:60]


def _address(request: Request) -> str:
    return request.client.host if request.client is not None else ""


def _refused(why: str) -> WeirError:
    return WeirError(Reason.PERMISSION_DENIED, f"the login did not succeed: {why}")


def _told(error: WeirError | TimeoutError) -> Response:
    told = error.message if isinstance(error, WeirError) else "the provider is too slow; try again"
    return RedirectResponse(f"{_HOME}login?{urlencode({'error': told})}", status_code=302)
