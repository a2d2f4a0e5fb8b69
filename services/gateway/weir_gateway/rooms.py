"""What a gateway keeps for its tenants beyond the life of a request, put together."""

from collections.abc import Callable

import grpc
from starlette.routing import BaseRoute

from weir_core.clock import Clock
from weir_core.telemetry.tracing import Tracing
from weir_gateway.batches.room import BatchRoom
from weir_gateway.directory.follower import Directory
from weir_gateway.files.room import FileRoom
from weir_gateway.flow.reception import Reception
from weir_gateway.holdings.open_streams import OpenStreams
from weir_gateway.holdings.policies import KeepPolicies
from weir_gateway.holdings.room import HoldingRoom
from weir_gateway.idempotency.http_door import HttpIdempotency
from weir_gateway.intake.preparer import Preparer
from weir_gateway.jobs.room import JobRoom
from weir_gateway.links.limiter import Limiter
from weir_gateway.metrics import GatewayMetrics
from weir_gateway.responses.room import ResponseRoom
from weir_gateway.settings import GatewaySettings
from weir_gateway.state.state import State


class Rooms:
    """Files, jobs, and what is built on them.

    Args:
        settings: of the process.
        state: where all of it is kept.
        directory, reception, preparer, idempotency, limiter, metrics: see there.
        clock: time.
        tracing: of the process.
        draining: whether the gateway takes no new work.

    Attributes:
        jobs: see there.
    """

    def __init__(
        self,
        settings: GatewaySettings,
        state: State,
        *,
        directory: Directory,
        reception: Reception,
        preparer: Preparer,
        idempotency: HttpIdempotency,
        limiter: Limiter,
        metrics: GatewayMetrics,
        clock: Clock,
        tracing: Tracing,
        draining: Callable[[], bool],
    ) -> None:
        self._settings = settings
        self._directory = directory
        streams = OpenStreams(settings.event_streams_at_once)
        policies = KeepPolicies(directory)
        self._holdings = HoldingRoom(state)
        self._files = FileRoom(
            state=state, reception=reception, clock=clock, stall_s=settings.stall_s
        )
        self.jobs = JobRoom(
            settings,
            state,
            reception=reception,
            preparer=preparer,
            limiter=limiter,
            metrics=metrics,
            clock=clock,
            tracing=tracing,
            draining=draining,
            streams=streams,
            policies=policies,
        )
        self._batches = BatchRoom(
            settings,
            state,
            files=self._files.store,
            jobs=self.jobs,
            directory=directory,
            reception=reception,
            preparer=preparer,
            clock=clock,
        )
        self._responses = ResponseRoom(
            settings,
            state=state,
            jobs=self.jobs,
            idempotency=idempotency,
            reception=reception,
            preparer=preparer,
            clock=clock,
            streams=streams,
            policies=policies,
        )

    def routes(self) -> list[BaseRoute]:
        """What the HTTP door serves."""
        return [
            *self._files.routes(),
            *self.jobs.routes(),
            *self._batches.routes(),
            *self._responses.routes(),
        ]

    def serve(self, server: grpc.aio.Server) -> None:
        """Adds the services."""
        self.jobs.serve(server)
        self.jobs.webhooks.serve(
            server,
            self._directory,
            self._settings.admin_secret,
            allow_http=self._settings.webhooks_over_http,
        )

    def start(self) -> None:
        """Starts what runs in the background."""
        self._files.start()
        self._holdings.start()
        self._responses.start()
        self.jobs.start()
        self._batches.start()

    async def stop_jobs(self) -> None:
        """Gives back the jobs that run; while the services that they need are still there."""
        await self.jobs.stop()

    async def stop(self) -> None:
        """Ends everything else; before the state is closed."""
        await self._batches.stop()
        await self._responses.stop()
        await self._files.stop()
        await self._holdings.stop()
