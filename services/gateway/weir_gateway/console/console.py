"""The console's backend, wired."""

from importlib.metadata import version

from pydantic import SecretStr
from starlette.types import ASGIApp

from weir_core.clock import Clock
from weir_core.tls.identity import TlsIdentity
from weir_gateway.caller.authenticator import Authenticator
from weir_gateway.caller.key_uses import KeyUses
from weir_gateway.console.door import ConsoleDoor, WithConsole
from weir_gateway.console.gate import Gate
from weir_gateway.console.login import Login
from weir_gateway.console.login_throttle import LoginThrottle
from weir_gateway.console.origin import Origins
from weir_gateway.console.session_store import SessionStore
from weir_gateway.console.standing import Standing
from weir_gateway.console.static_files import StaticFiles
from weir_gateway.control import Control
from weir_gateway.edge import Edge
from weir_gateway.settings import GatewaySettings


class Console:
    """What the control role serves at `/console`; see `GatewayApp`.

    Args:
        settings: of the process.
        control: the control role.
        edge: the edge role of the same process; None: it plays none.
        clock: time.
        token: cluster secret.
        tls: of the connections to the other services.
        uses: gets every key that was let in.
    """

    def __init__(
        self,
        settings: GatewaySettings,
        control: Control,
        edge: Edge | None,
        *,
        clock: Clock,
        token: SecretStr,
        tls: TlsIdentity | None,
        uses: KeyUses,
    ) -> None:
        mine = settings.console
        directory = control.publisher
        authenticator = Authenticator(directory, clock, uses)
        self.sessions = SessionStore(
            clock,
            Standing(directory, authenticator).check,
            idle_s=mine.idle_s,
            most_s=mine.session_s,
            most=mine.max_sessions,
        )
        gate = Gate(self.sessions, Origins(mine.public_url))
        login = Login(
            gate,
            LoginThrottle(clock, mine.login_failures),
            authenticator,
            mine,
            settings.admin_secret,
            version=version("tokenweir"),
            audited=control.audited,
        )
        self.door = ConsoleDoor([*login.routes()], StaticFiles(), clock)

    def before(self, app: ASGIApp) -> ASGIApp:
        """An application that serves the console beside another."""
        return WithConsole(app, self.door.app)

    async def stop(self) -> None:
        """Ends streams and connections; before the HTTP server stops."""
