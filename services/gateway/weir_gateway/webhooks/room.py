"""Webhooks, wired."""

import grpc
from pydantic import SecretStr

from weir.gateway.v1.webhook_service_pb2_grpc import add_WebhookServiceServicer_to_server
from weir_core.clock import Clock
from weir_core.repeating import Repeating
from weir_gateway.admin.secret import AdminGuard
from weir_gateway.directory.follower import Directory
from weir_gateway.holdings.bounds import BoundOf
from weir_gateway.jobs.ends import JobEnds
from weir_gateway.metrics import GatewayMetrics
from weir_gateway.state.state import State
from weir_gateway.webhooks.connector import Connector
from weir_gateway.webhooks.dispatcher import Dispatcher
from weir_gateway.webhooks.endpoint_store import EndpointStore
from weir_gateway.webhooks.job_events import JobEvents
from weir_gateway.webhooks.outbox import Outbox
from weir_gateway.webhooks.secret_box import SecretBox
from weir_gateway.webhooks.secret_store import SecretStore
from weir_gateway.webhooks.sender import Sender
from weir_gateway.webhooks.servicer import WebhookServicer

_SEALED_S = 3_600.0


class WebhookRoom:
    """Wires the parts of this package.

    Args:
        state: where they are kept.
        ends: of jobs.
        metrics: count attempts.
        clock: time.
        private: whether they may go into private networks.
        bound_of: how many of a tenant may wait.
        box: encrypts their secrets.

    Attributes:
        outbox: other rooms queue events there.
        secrets: see there.
    """

    def __init__(
        self,
        state: State,
        ends: JobEnds,
        metrics: GatewayMetrics,
        clock: Clock,
        *,
        private: bool,
        bound_of: BoundOf,
        box: SecretBox,
    ) -> None:
        self.secrets = SecretStore(state, clock, box)
        self._sealing = Repeating("webhook_secrets", self.secrets.seal_anew, _SEALED_S)
        self._endpoints = EndpointStore(state)
        self.outbox = Outbox(
            state,
            self.secrets,
            clock,
            bound_of=bound_of,
            dropped=metrics.webhook_attempts.labels("not_queued").inc,
        )
        ends.listen(JobEvents(self.outbox).on_end)
        sender = Sender(Connector(private=private), clock)
        self._dispatcher = Dispatcher(self.outbox, sender, metrics)

    def serve(
        self,
        server: grpc.aio.Server,
        directory: Directory,
        admin_secret: SecretStr | None,
        *,
        allow_http: bool,
    ) -> None:
        """Adds the service."""
        guard = None if admin_secret is None else AdminGuard(admin_secret)
        servicer = WebhookServicer(
            guard, directory, self.secrets, self._endpoints, allow_http=allow_http
        )
        add_WebhookServiceServicer_to_server(servicer, server)

    def start(self) -> None:
        """Begins to deliver."""
        self._dispatcher.start()
        self._sealing.start()

    async def stop(self) -> None:
        """Ends it; before the state is closed."""
        await self._sealing.stop()
        await self._dispatcher.stop()
