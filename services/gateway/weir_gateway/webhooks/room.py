"""Webhooks, wired."""

from weir_core.clock import Clock
from weir_gateway.jobs.ends import JobEnds
from weir_gateway.metrics import GatewayMetrics
from weir_gateway.state.state import State
from weir_gateway.webhooks.connector import Connector
from weir_gateway.webhooks.dispatcher import Dispatcher
from weir_gateway.webhooks.job_events import JobEvents
from weir_gateway.webhooks.outbox import Outbox
from weir_gateway.webhooks.secret_store import SecretStore
from weir_gateway.webhooks.sender import Sender


class WebhookRoom:
    """Wires the parts of this package.

    Args:
        state: where they are kept.
        ends: of jobs.
        metrics: count attempts.
        clock: time.
        private: whether they may go into private networks.

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
    ) -> None:
        self.secrets = SecretStore(state, clock)
        self.outbox = Outbox(state, self.secrets, clock)
        ends.listen(JobEvents(self.outbox).on_end)
        sender = Sender(Connector(private=private), clock)
        self._dispatcher = Dispatcher(self.outbox, sender, metrics)

    def start(self) -> None:
        """Begins to deliver."""
        self._dispatcher.start()

    async def stop(self) -> None:
        """Ends it; before the state is closed."""
        await self._dispatcher.stop()
