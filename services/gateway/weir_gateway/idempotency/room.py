"""The parts of idempotency, wired."""

from prometheus_client import CollectorRegistry

from weir_core.clock import Clock
from weir_gateway.flow.reception import Reception
from weir_gateway.holdings.policies import KeepPolicies
from weir_gateway.idempotency.claim_store import ClaimStore
from weir_gateway.idempotency.http_door import HttpIdempotency
from weir_gateway.idempotency.idempotency import Idempotency
from weir_gateway.idempotency.metrics import IdempotencyMetrics
from weir_gateway.idempotency.native_door import NativeIdempotency
from weir_gateway.settings import GatewaySettings
from weir_gateway.state.state import State


class IdempotencyRoom:
    """What the doors need to run requests once.

    Attributes:
        http, native: of the doors.
    """

    def __init__(
        self,
        settings: GatewaySettings,
        state: State,
        reception: Reception,
        *,
        registry: CollectorRegistry,
        clock: Clock,
        policies: KeepPolicies,
    ) -> None:
        lease_s = settings.idempotency_lease_s
        self._on = state.on
        self._idempotency = Idempotency(
            ClaimStore(
                state,
                clock,
                lease_s=lease_s,
                keep_s=settings.idempotency_keep_s,
                bound_of=policies.idempotency,
            ),
            IdempotencyMetrics(registry),
            lease_s=lease_s,
            most_bytes=settings.idempotency_max_bytes,
            runs_on=settings.idempotency_on_leave == "finish",
        )
        self.http = HttpIdempotency(self._idempotency, reception)
        self.native = NativeIdempotency(self._idempotency, reception)

    def start(self) -> None:
        """Starts what renews and removes, where there is a database."""
        if self._on:
            self._idempotency.start()

    async def stop(self) -> None:
        """Stops it, once what was being kept is kept."""
        await self._idempotency.stop()
