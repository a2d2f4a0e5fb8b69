"""The jobs of a gateway's tenants, wired."""

from collections.abc import Callable

import grpc
from starlette.routing import Route

from weir.gateway.v1.job_service_pb2_grpc import add_JobServiceServicer_to_server
from weir_core.clock import Clock
from weir_core.repeating import Repeating
from weir_core.telemetry.tracing import Tracing
from weir_gateway.flow.reception import Reception
from weir_gateway.holdings.open_streams import OpenStreams
from weir_gateway.holdings.policies import KeepPolicies
from weir_gateway.intake.preparer import Preparer
from weir_gateway.jobs.attempt import AttemptParts
from weir_gateway.jobs.charges import JobCharges
from weir_gateway.jobs.deferral import JobDeferral
from weir_gateway.jobs.desk import JobDesk
from weir_gateway.jobs.ends import JobEnds
from weir_gateway.jobs.kind import JobKinds
from weir_gateway.jobs.kinds.native_kind import NativeKind
from weir_gateway.jobs.kinds.openai_kind import OpenAiKind
from weir_gateway.jobs.leases import JobLeases, LeaseBounds
from weir_gateway.jobs.routes import JobRoutes
from weir_gateway.jobs.runner import JobRunner, RunnerBounds
from weir_gateway.jobs.servicer import JobServicer
from weir_gateway.jobs.store import JobStore
from weir_gateway.jobs.submissions import Submissions
from weir_gateway.jobs.upkeep import JobUpkeep
from weir_gateway.links.limiter import Limiter
from weir_gateway.metrics import GatewayMetrics
from weir_gateway.settings import GatewaySettings
from weir_gateway.state.state import State
from weir_gateway.webhooks.room import WebhookRoom
from weir_gateway.webhooks.secret_box import SecretBox

_UPKEEP_S = 5.0


class JobRoom:
    """Wires the parts of this package.

    Args:
        settings: of the process.
        state: where jobs are kept.
        reception, preparer, limiter, metrics: see there.
        clock: time.
        tracing: of the process.
        draining: whether the gateway takes no new work.
        streams, policies: see there.

    Attributes:
        ends: who is told, in the same transaction, that a job has ended.
        kinds: other rooms register theirs here before `start`.
        store, desk: see there.
        submissions: spans of submissions.
        wake: there are new jobs.
        webhooks: see there; `tell` queues an event.
    """

    def __init__(
        self,
        settings: GatewaySettings,
        state: State,
        *,
        reception: Reception,
        preparer: Preparer,
        limiter: Limiter,
        metrics: GatewayMetrics,
        clock: Clock,
        tracing: Tracing,
        draining: Callable[[], bool],
        streams: OpenStreams,
        policies: KeepPolicies,
    ) -> None:
        self._on = state.on
        self._settings = settings
        self._reception = reception
        self._clock = clock
        self._streams = streams
        retention_ms = round(settings.job_retention_s * 1_000)
        self.ends = JobEnds()
        self.submissions = Submissions(tracing, clock)
        self.kinds = JobKinds()
        self.kinds.register("native", NativeKind())
        self.kinds.register("chat", OpenAiKind(chat=True))
        self.kinds.register("completion", OpenAiKind(chat=False))
        self.store = JobStore(state, self.ends, clock, retention_ms=retention_ms)
        bounds = LeaseBounds(
            lease_ms=round(settings.job_lease_s * 1_000),
            retention_ms=retention_ms,
            most_failures=settings.job_failures,
        )
        leases = JobLeases(state, self.ends, clock, bounds)
        charges = JobCharges(state, limiter, metrics, clock)
        parts = AttemptParts(
            reception=reception,
            kinds=self.kinds,
            leases=leases,
            charges=charges,
            clock=clock,
            longest_s=settings.job_attempt_s,
            write_s=settings.settle_s,
        )
        self._runner = JobRunner(
            leases,
            charges,
            parts,
            clock,
            RunnerBounds(
                most=settings.jobs_at_once,
                most_of_tenant=settings.tenant_jobs_at_once,
                beat_s=min(1.0, settings.job_lease_s / 3),
            ),
            draining,
            metrics,
        )
        self.wake = self._runner.wake
        self.webhooks = WebhookRoom(
            state,
            self.ends,
            metrics,
            clock,
            private=settings.webhooks_to_private_addresses,
            bound_of=policies.webhooks,
            box=_secret_box(settings),
        )
        self.tell = self.webhooks.outbox.enqueue
        self._upkeep = JobUpkeep(state, self.ends, clock, retention_ms=retention_ms)
        self._tending = Repeating("job_upkeep", self._tend, _UPKEEP_S)
        self.desk = JobDesk(
            store=self.store,
            reception=reception,
            preparer=preparer,
            runner=self._runner,
            clock=clock,
            submissions=self.submissions,
            window_ms=round(settings.job_window_s * 1_000),
            http_webhooks=settings.webhooks_over_http,
        )

    def start(self) -> None:
        """Begins to run jobs, if there is a database to find them in."""
        if self._on:
            self._runner.start()
            self.webhooks.start()
            self._tending.start()

    async def stop(self) -> None:
        """Gives back what runs; while the limiter and the state are still there."""
        await self._tending.stop()
        await self._runner.stop()
        await self.webhooks.stop()

    def serve(self, server: grpc.aio.Server) -> None:
        """Adds the service."""
        servicer = JobServicer(
            self._reception,
            self.desk,
            self.kinds,
            max_bytes=self._settings.max_body_bytes,
            stall_s=self._settings.stall_s,
            streams=self._streams,
        )
        add_JobServiceServicer_to_server(servicer, server)

    def deferral(self, kind: str) -> JobDeferral:
        """Turns calls of an endpoint into jobs of a kind."""
        return JobDeferral(self.desk, self.kinds, kind, on=self._on)

    def routes(self) -> list[Route]:
        """What the HTTP door serves."""
        return JobRoutes(
            self._reception,
            self.desk,
            self.kinds,
            self._clock,
            max_body=self._settings.max_body_bytes,
            ping_s=self._settings.ping_s,
            streams=self._streams,
        ).routes()

    async def _tend(self) -> None:
        while await self._upkeep.expire():
            pass
        while await self._upkeep.remove():
            pass


def _secret_box(settings: GatewaySettings) -> SecretBox:
    """Of secrets in the state; what was encrypted before `state_key` was set can be read."""
    known = (settings.state_key, settings.cluster_token, settings.state_key_before)
    first, *before = (secret.get_secret_value() for secret in known if secret is not None)
    return SecretBox(first, before)
