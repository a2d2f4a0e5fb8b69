"""The ratelimiter's process: its parts, put together."""

import asyncio
from contextlib import AsyncExitStack, suppress

import grpc
from pydantic import SecretStr

from weir.ratelimiter.v1.ledger_service_pb2_grpc import add_LedgerServiceServicer_to_server
from weir.ratelimiter.v1.ratelimiter_service_pb2_grpc import (
    add_RateLimiterServiceServicer_to_server,
)
from weir_core.clock import Clock, SystemClock
from weir_core.directory.watcher import DirectoryWatcher
from weir_core.errors.startup import StartupError
from weir_core.process.process_servicer import add_process_service
from weir_core.repeating import Repeating
from weir_core.rpc.channel import open_channel
from weir_core.rpc.interceptors import (
    MetricsInterceptor,
    ServiceAuthInterceptor,
    default_interceptors,
)
from weir_core.rpc.server import create_server
from weir_core.telemetry.telemetry import Telemetry
from weir_core.tls.identity import service_identity
from weir_ratelimiter.directory.book import LimitBook
from weir_ratelimiter.directory.follower import DirectoryFollower
from weir_ratelimiter.domain.subject import Subject
from weir_ratelimiter.envoy.server import envoy_server
from weir_ratelimiter.ledger.ledger import Ledger
from weir_ratelimiter.ledger.url import default_url
from weir_ratelimiter.ledger_servicer import SERVICE as LEDGER_SERVICE
from weir_ratelimiter.ledger_servicer import LedgerServicer
from weir_ratelimiter.limiter import Limiter
from weir_ratelimiter.metrics import LimiterMetrics
from weir_ratelimiter.opened_store import OpenedStore
from weir_ratelimiter.record import RecordSigner
from weir_ratelimiter.servicer import SERVICE, RateLimiterServicer
from weir_ratelimiter.settings import RateLimiterSettings
from weir_ratelimiter.steady_time import SteadyTime
from weir_ratelimiter.store.base import Limits, Store
from weir_ratelimiter.stores import open_store

_KNOWN_S = 5.0


class RateLimiterApp:
    """One ratelimiter process without its sockets; build it inside the event loop.

    Args:
        settings: of the process.
        telemetry: its traces and metrics.
        clock: time.

    Attributes:
        server: serves `services` once an address is bound to it and it is started; whoever
            does that also stops it, before `stop`.
        services: full names of the services on the server.
        envoy_server: serves Envoys, as `server`; None without an `envoy_address`.
        tls: who the process is on both, and whom it trusts; None: plain text.

    Raises:
        StartupError: there is no cluster secret, or a file of TLS is not good.
    """

    def __init__(
        self, settings: RateLimiterSettings, telemetry: Telemetry, *, clock: Clock | None = None
    ) -> None:
        self._settings = settings
        self._telemetry = telemetry
        self._clock = clock or SystemClock()
        self._token = _cluster_token(settings)
        self.tls = service_identity(settings.tls, telemetry.registry)
        self._closing = AsyncExitStack()
        self._draining = AsyncExitStack()
        self.services = [SERVICE, LEDGER_SERVICE]
        self._interceptors = default_interceptors(
            tracing=telemetry.tracing, registry=telemetry.registry, tls=self.tls
        )
        self.server = create_server(
            interceptors=[*self._interceptors, ServiceAuthInterceptor([self._token])]
        )
        self.envoy_server: grpc.aio.Server | None = None
        self._limiter: Limiter
        self._known = asyncio.Event()

    async def start(self) -> None:
        """Open store and ledger, follow the directory, and be ready to serve.

        Raises:
            StartupError: one of them cannot be opened; what was opened is released by `stop`.
        """
        opened = await self._open_store()
        ledger = await self._open_ledger(opened.store)
        limiter = self._limiter = self._build_limiter(opened, ledger)
        for task in opened.tasks:
            self._run(task)
        servicer = RateLimiterServicer(
            limiter,
            self._clock.now_ms,
            self._telemetry.tracing,
            ledger.budgets,
            next((i for i in self._interceptors if isinstance(i, MetricsInterceptor)), None),
            self._limits_known,
        )
        add_RateLimiterServiceServicer_to_server(servicer, self.server)
        add_process_service(self.server, "ratelimiter", self._settings)
        self._draining.push_async_callback(servicer.drain)
        if self._settings.envoy_address:
            self.envoy_server = envoy_server(
                self._settings, limiter, self._interceptors, self._clock.now_ms
            )
        self._follow_directory(limiter)
        self._run(Repeating("sweep", limiter.sweep, self._settings.sweep_interval_s))

    async def drain(self) -> None:
        """End what callers keep open; call it before the server is stopped. Idempotent."""
        await self._draining.aclose()

    async def stop(self) -> None:
        """Release everything, in the reverse order of its making. Idempotent."""
        await self._closing.aclose()

    async def _open_store(self) -> OpenedStore:
        opened = await open_store(
            self._settings, SteadyTime(self._clock), self._telemetry.registry, self._limits_of
        )
        self._closing.push_async_callback(opened.store.close)
        return opened

    async def _open_ledger(self, store: Store) -> Ledger:
        settings = self._settings
        ledger = Ledger(
            settings.ledger_url.get_secret_value() or default_url(settings.journal),
            self._token.get_secret_value().encode(),
            store,
            self._telemetry.registry,
            self._clock.now_ms,
        )
        self._closing.push_async_callback(ledger.stop)
        await ledger.start()
        servicer = LedgerServicer(ledger, settings.ledger_most_events, self._has_tenant)
        add_LedgerServiceServicer_to_server(servicer, self.server)
        return ledger

    def _has_tenant(self, tenant_id: str) -> bool:
        return self._limiter.book.has_tenant(tenant_id)

    def _build_limiter(self, opened: OpenedStore, ledger: Ledger) -> Limiter:
        return Limiter(
            opened.store,
            RecordSigner(self._token.get_secret_value().encode()),
            now_ms=self._clock.now_ms,
            default_ttl_ms=round(self._settings.ttl_s * 1_000),
            metrics=LimiterMetrics(self._telemetry.registry),
            budgets=ledger.budgets,
            degraded=opened.degraded,
        )

    def _limits_of(self, subject: Subject) -> Limits:
        return self._limiter.book.resolve_for_ending(subject).by_key

    def _follow_directory(self, limiter: Limiter) -> None:
        channel = open_channel(
            self._settings.directory_address, name="gateway", token=self._token, tls=self.tls
        )
        self._closing.push_async_callback(channel.close)
        watcher = DirectoryWatcher(channel, "ratelimiter")

        def use(book: LimitBook) -> None:
            limiter.use(book)
            self._known.set()

        follower = DirectoryFollower(use)
        watcher.on_change(follower.changed)
        self._run(follower)
        self._run(watcher)

    async def _limits_known(self) -> None:
        """Waits for the first limits for a moment. Raises WeirError(LIMITER_UNAVAILABLE)."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_KNOWN_S):
                await self._known.wait()
        self._limiter.book  # noqa: B018 - refuses before the first

    def _run(self, task: Repeating | DirectoryFollower | DirectoryWatcher) -> None:
        task.start()
        self._closing.push_async_callback(task.stop)


def _cluster_token(settings: RateLimiterSettings) -> SecretStr:
    token = settings.cluster_token
    if token is None or not token.get_secret_value():
        raise StartupError("the ratelimiter signs with the cluster secret; set WEIR_CLUSTER_TOKEN")
    return token
