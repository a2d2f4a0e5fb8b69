"""The edge role: doors, and the life of every request behind them."""

import time

import grpc
from google.protobuf.timestamp_pb2 import Timestamp
from pydantic import SecretStr
from starlette.types import ASGIApp

from weir.gateway.v1 import (
    admin_service_pb2,
    history_service_pb2,
    inference_service_pb2,
    inference_service_pb2_grpc,
    insight_service_pb2,
    job_service_pb2,
    prefix_service_pb2,
    session_service_pb2,
    webhook_service_pb2,
)
from weir_core.clock import Clock
from weir_core.ids import new_id
from weir_core.rpc.channel import ServiceChannel, open_channel
from weir_core.rpc.leader_channels import LeaderChannels
from weir_core.telemetry.telemetry import Telemetry
from weir_core.tls.identity import TlsIdentity
from weir_gateway.caller.authenticator import Authenticator
from weir_gateway.caller.caller import Caller
from weir_gateway.caller.key_uses import KeyUses
from weir_gateway.caller.request_guard import RequestGuard
from weir_gateway.degradation.degrader import Degrader
from weir_gateway.degradation.metrics import DegradationMetrics
from weir_gateway.directory.follower import Directory
from weir_gateway.flow.ending import Ending
from weir_gateway.flow.extender import ExtendBounds, Extender
from weir_gateway.flow.front_desk import DeskBounds, FrontDesk
from weir_gateway.flow.live_request import LiveRequest
from weir_gateway.flow.live_state import LiveBounds
from weir_gateway.flow.reception import Reception
from weir_gateway.flow.request_records import RequestRecords
from weir_gateway.flow.request_span import RequestSpans
from weir_gateway.flow.revocation import Revocation
from weir_gateway.flow.settler import Settler
from weir_gateway.flow.trail import Trail
from weir_gateway.flow.unheard import Unheard
from weir_gateway.history.room import HistoryRoom
from weir_gateway.holdings.policies import KeepPolicies
from weir_gateway.idempotency.room import IdempotencyRoom
from weir_gateway.insight.room import InsightRoom
from weir_gateway.intake.model_list import ModelList
from weir_gateway.intake.preparer import Preparer
from weir_gateway.links.account_reader import AccountReader
from weir_gateway.links.limiter import Limiter
from weir_gateway.links.limiter_channel import open_limiter_channel
from weir_gateway.links.scheduler_link import SchedulerLink
from weir_gateway.links.worker_links import WorkerLinks
from weir_gateway.metrics_views import MetricsViews
from weir_gateway.native.inference_servicer import InferenceServicer
from weir_gateway.openai.app import create_http_app
from weir_gateway.openai.dialect import OpenAiDialect
from weir_gateway.openai.known_caller import KnownCallerEndpoint
from weir_gateway.openai.limits_page import LimitsPage
from weir_gateway.prefixes.room import PrefixRoom
from weir_gateway.rooms import Rooms
from weir_gateway.sessions.room import SessionRoom
from weir_gateway.settings import GatewaySettings
from weir_gateway.state.state import open_state
from weir_gateway.text.model_texts import ModelTexts

PUBLIC_SERVICES = tuple(
    module.DESCRIPTOR.services_by_name[name].full_name
    for module, name in (
        (inference_service_pb2, "InferenceService"),
        (session_service_pb2, "SessionService"),
        (prefix_service_pb2, "PrefixService"),
        (job_service_pb2, "JobService"),
        (webhook_service_pb2, "WebhookService"),
        (history_service_pb2, "HistoryService"),
        (insight_service_pb2, "InsightService"),
        (admin_service_pb2, "AdminService"),
    )
)
ADMIN_SERVICE = PUBLIC_SERVICES[-1]
_READS = "that reserve nothing, such as GET /v1/limits"


class Edge:
    """Parts of the edge role, wired; see `GatewayApp`.

    Args:
        settings: of the process.
        directory: followed for everything about tenants and models.
        telemetry: traces and metrics.
        clock: time.
        token: cluster secret.
        tls: of the connections to the other services; None: plain text.
        uses: gets every key that was let in.

    Attributes:
        grpc_address: `host:port` that clients' gRPC calls come to, once it is bound.
    """

    def __init__(
        self,
        settings: GatewaySettings,
        *,
        directory: Directory,
        telemetry: Telemetry,
        clock: Clock,
        token: SecretStr,
        tls: TlsIdentity | None = None,
        uses: KeyUses | None = None,
    ) -> None:
        self.grpc_address = ""
        self._settings = settings
        self._directory = directory
        self._token = token
        self._tls = tls
        gateway_id = new_id("gw", clock)
        self._limiter_channel = open_limiter_channel(settings.ratelimiter_address, token, tls)
        self._schedulers = self._open_schedulers()
        self.state = open_state(settings.state_url or settings.database_url)
        self.records = RequestRecords(clock)
        self.insight = InsightRoom(
            settings,
            self.state,
            directory=directory,
            limiter=self._limiter_channel,
            open_schedulers=self._open_schedulers,
            open_channel=self._channel,
            clock=clock,
            gateway_id=gateway_id,
        )
        self.book = self.insight.book
        self._sessions = SessionRoom(
            self.state,
            self.records,
            lambda address: self._channel(address, "worker"),
            secret=token,
            clock=clock,
        )
        self.texts = ModelTexts(directory, clock)
        self.scheduler = SchedulerLink(
            self._schedulers, gateway_id=gateway_id, requests=self.records
        )
        self._workers = WorkerLinks(
            lambda address: self._channel(address, "worker"),
            gateway_id=gateway_id,
            idle_s=settings.worker_idle_s,
        )
        limiter = Limiter(self._limiter_channel, timeout_s=settings.limiter_timeout_s)
        self._limiter = limiter
        self._extender = Extender(limiter, telemetry.tracing, _extend_bounds(settings))
        self._views = MetricsViews(settings, telemetry.registry, token)
        metrics = self._views.metrics
        self.unheard = Unheard(metrics, telemetry.tracing)
        self._spans = RequestSpans(telemetry.tracing, clock)
        self.history = HistoryRoom(
            settings,
            self.records,
            self._schedulers,
            self._limiter_channel,
            degraded=lambda: limiter.degraded,
            unheard=lambda: len(self.unheard),
            clock=clock,
            gateway_id=gateway_id,
        )
        metrics.on_refused.append(self.history.flows.refused)
        self.desk = FrontDesk(
            limiter=limiter,
            scheduler=self.scheduler,
            workers=self._workers,
            settler=Settler(
                limiter, self.unheard, give_up_s=settings.settle_s, lease_s=settings.lease_s
            ),
            unheard=self.unheard,
            extender=self._extender,
            records=self.records,
            metrics=metrics,
            spans=self._spans,
            clock=clock,
            on_admitted=self._on_admitted,
            on_end=self._on_end,
            bounds=DeskBounds(lease_s=settings.lease_s),
            live_bounds=LiveBounds(
                abort_s=settings.abort_wait_s, scheduler_s=settings.scheduler_wait_s
            ),
        )
        self._authenticator = Authenticator(directory, clock, uses)
        self._revocation = Revocation(
            directory,
            self._authenticator,
            self.records,
            end_streams=settings.end_streams_on_revocation,
        )
        self._models = ModelList(directory, Timestamp(seconds=int(time.time())))
        self._prefixes = PrefixRoom(
            self.state, self._models, clock, max_bytes=settings.max_body_bytes
        )
        self._preparer = Preparer(directory, self.texts, self._sessions.desk, self._prefixes.desk)
        self._reception = Reception(
            authenticator=self._authenticator,
            guard=RequestGuard(directory, clock),
            reads=RequestGuard(directory, clock, counted=_READS),
            preparer=self._preparer,
            degrader=Degrader(
                directory, self._preparer, self.desk, DegradationMetrics(telemetry.registry)
            ),
            desk=self.desk,
            metrics=metrics,
            clock=clock,
            keep=self._keep,
            most_s=settings.request_timeout_s,
        )
        self._prefixes.open(self._reception, self._schedulers)
        self._idempotency = IdempotencyRoom(
            settings,
            self.state,
            self._reception,
            registry=telemetry.registry,
            clock=clock,
            policies=KeepPolicies(directory),
        )
        self._rooms = Rooms(
            settings,
            self.state,
            reception=self._reception,
            preparer=self._preparer,
            idempotency=self._idempotency.http,
            limiter=limiter,
            metrics=metrics,
            clock=clock,
            tracing=telemetry.tracing,
            draining=lambda: self.desk.draining,
            directory=directory,
        )
        reader = AccountReader(self._limiter_channel, timeout_s=settings.limiter_timeout_s)
        self._limits = LimitsPage(reader, self._models)
        self._clock = clock

    def serve(self, server: grpc.aio.Server) -> None:
        """Adds the public services."""
        servicer = InferenceServicer(
            reception=self._reception,
            idempotency=self._idempotency.native,
            preparer=self._preparer,
            models=self._models,
            records=self.records,
            max_bytes=self._settings.max_body_bytes,
            stall_s=self._settings.stall_s,
        )
        inference_service_pb2_grpc.add_InferenceServiceServicer_to_server(servicer, server)
        self._sessions.serve(server, self._reception, self._models)
        self.history.serve(server, self._reception)
        self.insight.serve(server, self._reception)
        self._prefixes.serve(server)
        self._rooms.serve(server)

    def http_app(self) -> ASGIApp:
        """The HTTP door."""
        settings = self._settings
        return create_http_app(
            reception=self._reception,
            idempotency=self._idempotency.http,
            preparer=self._preparer,
            models=self._models,
            limits=self._limits,
            clock=self._clock,
            metrics=self._views,
            not_ready=self.not_ready,
            max_body=settings.max_body_bytes,
            ping_s=settings.ping_s,
            stall_s=settings.stall_s,
            cors_origins=settings.cors_origins,
            chat_deferral=self._rooms.jobs.deferral("chat"),
            completion_deferral=self._rooms.jobs.deferral("completion"),
            rooms=[
                *self._rooms.routes(),
                *self._sessions.routes(self._reception, self._models),
                *self._prefixes.routes(),
                *self.insight.routes(self._reception),
            ],
        )

    @property
    def models(self) -> ModelList:
        """What callers may use."""
        return self._models

    def chat_of(self, caller: Caller) -> ASGIApp:
        """Chat completions of a caller who is known already."""
        return KnownCallerEndpoint(
            caller,
            reception=self._reception,
            idempotency=self._idempotency.http,
            dialect=OpenAiDialect(chat=True),
            clock=self._clock,
            max_body=self._settings.max_body_bytes,
            ping_s=self._settings.ping_s,
            stall_s=self._settings.stall_s,
        )

    async def start(self) -> None:
        """Starts what runs in the background. Raises StartupError."""
        await self.state.start()
        self._sessions.start()
        self._prefixes.start()
        self._rooms.start()
        self._idempotency.start()
        self.texts.start()
        self._limiter.start()
        self.scheduler.start()
        self._workers.open()
        self._extender.start()
        self._revocation.start()
        self.history.keeper.start()

    async def stop(self) -> None:
        """Stops what still runs, then everything else."""
        await self.insight.stop()
        await self.history.keeper.stop()
        await self._prefixes.stop()
        await self.desk.stop()
        await self._rooms.stop_jobs()
        await self._idempotency.stop()
        await self._extender.stop()
        await self._limiter.stop()
        await self.scheduler.stop()
        await self._workers.close()
        await self.texts.stop()
        self._preparer.close()
        await self._limiter_channel.close()
        await self._schedulers.close()
        await self._rooms.stop()
        await self._sessions.stop()
        await self.state.close()

    def not_ready(self) -> str:
        """Why requests cannot be served now; empty when they can."""
        if self.desk.draining:
            return "the process is shutting down"
        if self._directory.index is None:
            return "no directory has been received"
        if not self.texts.settled:
            return "tokenizers are being loaded"
        if self.scheduler.epoch == 0:
            return "the scheduler is not connected"
        if not self._limiter.heard:
            return "no ratelimiter has said that it knows its limits"
        state = self._limiter_channel.get_state(try_to_connect=True)
        if state is not grpc.ChannelConnectivity.READY:
            return "no ratelimiter is connected"
        return ""

    def _on_admitted(self, live: LiveRequest) -> None:
        self.history.flows.admitted(live)
        self._sessions.on_admitted(live)

    def _on_end(self, live: LiveRequest, ending: Ending) -> None:
        self.history.flows.ended(live, ending)
        self._sessions.on_end(live, ending)

    def _keep(self, trail: Trail) -> None:
        self.book.keep(trail)
        self._spans.refused(trail)

    def _open_schedulers(self) -> LeaderChannels:
        return LeaderChannels(
            self._settings.scheduler_address,
            name="scheduler",
            knob="scheduler_address",
            token=self._token,
            tls=self._tls,
        )

    def _channel(self, address: str, name: str) -> ServiceChannel:
        return open_channel(address, name=name, token=self._token, tls=self._tls)


def _extend_bounds(settings: GatewaySettings) -> ExtendBounds:
    return ExtendBounds(
        ttl_s=settings.lease_s,
        tokens=settings.extend_tokens,
        lookahead=settings.extend_lookahead,
    )
