"""The console's backend, wired."""

from importlib.metadata import version
from typing import cast

from pydantic import SecretStr
from starlette.types import ASGIApp

from weir_core.clock import Clock
from weir_core.host_port import is_loopback
from weir_core.rpc.leader_channels import LeaderChannels
from weir_core.telemetry.logs import get_logger
from weir_core.tls.identity import TlsIdentity
from weir_gateway.caller.authenticator import Authenticator
from weir_gateway.caller.key_uses import KeyUses
from weir_gateway.console.audit import Audit
from weir_gateway.console.card import Cards
from weir_gateway.console.configuration_pages import ConfigurationPages
from weir_gateway.console.directory_pages import DirectoryPages
from weir_gateway.console.door import ConsoleDoor, WithConsole
from weir_gateway.console.fairness_pages import FairnessPages
from weir_gateway.console.gate import Gate
from weir_gateway.console.live import Live, Ticks, by_time
from weir_gateway.console.login import Login
from weir_gateway.console.login_throttle import LoginThrottle
from weir_gateway.console.oidc.checks import check_oidc
from weir_gateway.console.oidc.login import OidcLogin
from weir_gateway.console.origin import Origins
from weir_gateway.console.overview import Overview
from weir_gateway.console.overview_pages import OverviewPages
from weir_gateway.console.pace import Pace
from weir_gateway.console.playground import Playground
from weir_gateway.console.queue_pages import QueuePages
from weir_gateway.console.request_pages import RequestPages
from weir_gateway.console.session_seal import SessionSeal
from weir_gateway.console.session_store import SessionStore
from weir_gateway.console.shared_sessions import SharedSessions
from weir_gateway.console.slo_pages import SloPages
from weir_gateway.console.sources import Sources
from weir_gateway.console.standing import Standing
from weir_gateway.console.static_files import StaticFiles
from weir_gateway.console.tenant_pages import TenantPages
from weir_gateway.console.worker_pages import WorkerPages
from weir_gateway.control import Control
from weir_gateway.directory.sql.source import SqlDirectory
from weir_gateway.edge import Edge
from weir_gateway.history.far_reader import FarLook, FarReader
from weir_gateway.links.account_reader import AccountReader
from weir_gateway.links.ledger_reader import LedgerReader
from weir_gateway.links.limiter_channel import open_limiter_channel
from weir_gateway.links.scheduler_reader import SchedulerReader
from weir_gateway.settings import GatewaySettings
from weir_gateway.state.state import open_state

_log = get_logger(__name__)


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
        self._public_url = mine.public_url
        directory = control.publisher
        self._limiter_channel = open_limiter_channel(settings.ratelimiter_address, token, tls)
        self._schedulers = _schedulers(settings, token, tls)
        sources = Sources(
            accounts=AccountReader(self._limiter_channel, timeout_s=settings.limiter_timeout_s),
            ledger=LedgerReader(self._limiter_channel),
            scheduler=SchedulerReader(self._schedulers),
            directory=directory,
            cards=Cards(clock),
            clock=clock,
        )
        authenticator = Authenticator(directory, clock, uses)
        check_oidc(mine)
        standing = Standing(directory, authenticator)
        self.sessions = SessionStore(
            clock,
            standing.check,
            idle_s=mine.idle_s,
            most_s=mine.session_s,
            most=mine.max_sessions,
        )
        self._own_state = None if edge is not None else open_state(_state_url(settings))
        state = edge.state if edge is not None else self._own_state
        assert state is not None
        shared = SharedSessions(
            self.sessions,
            state,
            clock,
            idle_s=mine.idle_s,
            seal=SessionSeal(token, settings.admin_secret, mine),
        )
        gate = Gate(self.sessions, shared, Origins(mine.public_url), Pace(clock))
        audit = Audit(control.source if isinstance(control.source, SqlDirectory) else None)
        throttle = LoginThrottle(clock, mine.login_failures)
        login = Login(
            gate,
            throttle,
            authenticator,
            mine,
            settings.admin_secret,
            version=version("tokenweir"),
            audited=audit.kept,
        )
        self._oidc: OidcLogin | None = None
        if mine.oidc_issuer:
            self._oidc = OidcLogin(gate, login, standing, throttle, mine, clock)
        keeper = edge.history.keeper if edge is not None else None
        desk = edge.insight.desk if edge is not None else None
        overview = Overview(sources, keeper, self._far_look)
        ticks = by_time if keeper is None else cast("Ticks", keeper.watch)
        self.live = Live(overview.of, ticks, self.sessions, shared.look)
        pages = (
            OverviewPages(sources, overview, self.live),
            TenantPages(sources, edge.records if edge is not None else None),
            QueuePages(sources),
            WorkerPages(sources, audit),
            FairnessPages(sources),
            RequestPages(sources, desk),
            Playground(sources, authenticator, edge),
            SloPages(sources),
            ConfigurationPages(sources, desk),
            DirectoryPages(sources, in_database=audit.kept),
            audit,
        )
        routes = [*login.routes(), *(self._oidc.routes() if self._oidc else ())]
        routes += [route for page in pages for route in page.routes(gate)]
        self.door = ConsoleDoor(routes, StaticFiles(), clock)

    def before(self, app: ASGIApp) -> ASGIApp:
        """An application that serves the console beside another."""
        return WithConsole(app, self.door.app)

    def warn_of_plain_text(self, address: str) -> None:
        """Logs that secrets which are typed can be read on their way, where they can be."""
        if not is_loopback(address) and not self._public_url.startswith("https://"):
            _log.warning(
                "console_in_plain_text",
                address=address,
                mend="set edge_tls; or console.public_url, where a proxy with TLS stands before",
            )

    async def stop(self) -> None:
        """Ends streams and connections; before the HTTP server stops."""
        await self.live.stop()
        if self._oidc is not None:
            await self._oidc.close()
        await self._limiter_channel.close()
        await self._schedulers.close()
        if self._own_state is not None:
            await self._own_state.close()

    async def _far_look(self) -> FarLook:
        reader = FarReader(
            self._schedulers,
            self._limiter_channel,
            degraded=lambda: False,
            unheard=lambda: 0,
            follows=True,
        )
        return await reader.look()


def _state_url(settings: GatewaySettings) -> SecretStr | None:
    return settings.state_url or settings.database_url


def _schedulers(
    settings: GatewaySettings, token: SecretStr, tls: TlsIdentity | None
) -> LeaderChannels:
    return LeaderChannels(
        settings.scheduler_address,
        name="scheduler",
        knob="scheduler_address",
        token=token,
        tls=tls,
    )
