"""Closes the account of a request: exactly one Settle or Refund, repeated until it is heard."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

from weir.common.v1.error_reason_pb2 import ErrorReason
from weir.common.v1.lifecycle_pb2 import LifecycleRecord, Outcome
from weir.ratelimiter.v1.ratelimiter_service_pb2 import (
    RefundRequest,
    ReserveRequest,
)
from weir_core.errors import WeirError
from weir_core.telemetry.context import current_tenant_id
from weir_core.telemetry.span_context import current_traceparent
from weir_gateway.flow.ending import Ending
from weir_gateway.flow.messages import settle_message
from weir_gateway.flow.trail import Moment, Trail
from weir_gateway.flow.unheard import NOT_HEARD, Call, Unheard
from weir_gateway.flow.wire_reason import to_wire
from weir_gateway.links.limiter import Limiter

_UNSET = ErrorReason.ERROR_REASON_UNSPECIFIED


class Settler:
    """Settles with the ratelimiter.

    Args:
        limiter: the client; its calls are idempotent by the record.
        unheard: repeats what was not heard.
        give_up_s: after so long the rest is left to the ratelimiter's sweep, which settles
            from the last progress.
        lease_s: life of a reservation of which nobody has the record.
    """

    def __init__(
        self, limiter: Limiter, unheard: Unheard, *, give_up_s: float = 600.0, lease_s: float = 30.0
    ) -> None:
        self._limiter = limiter
        self._unheard = unheard
        self._give_up_s = give_up_s
        self._lease_s = lease_s

    async def settle(
        self, trail: Trail, record: bytes, ending: Ending, lifecycle: LifecycleRecord
    ) -> None:
        """Settles what ran, or refunds what never started; repeated later if it is not heard.

        Args:
            trail: of the request; told when it is heard, or given up.
            record: the reservation's.
            ending, lifecycle: of the request.

        Raises:
            WeirError: the ratelimiter refuses for good.
        """

        async def send() -> None:
            await self._close(record, ending, lifecycle)
            trail.note(Moment.SETTLED, tokens=lifecycle.usage.total_tokens)

        try:
            await send()
        except WeirError as error:
            if error.reason not in NOT_HEARD:
                raise
            self._later(trail.request_id, send, self._give_up_s, trail)

    async def give_back(
        self, trail: Trail, record: bytes, ending: Ending, lifecycle: LifecycleRecord
    ) -> None:
        """Refunds a request whose progress was not told, whatever of it ran.

        Raises:
            WeirError: the ratelimiter refuses for good.
        """
        await self.settle(trail, record, replace(ending, started=False), lifecycle)

    def undo(self, request: ReserveRequest) -> None:
        """Gives back, in time, a reservation whose answer was lost, if it was made.

        Asked again, the ratelimiter answers with the record that a refund needs. If it never
        heard the first call it admits now what is given back in the next moment.
        """

        async def send() -> None:
            try:
                reservation = await self._limiter.reserve(request)
            except WeirError as error:
                if error.reason in NOT_HEARD:
                    raise
                return  # refused, so that nothing is held
            refund = RefundRequest(record=reservation.record, outcome=Outcome.OUTCOME_ERROR)
            await self._limiter.refund(refund)

        self._later(request.request_id, send, self._lease_s)

    def _later(
        self,
        request_id: str,
        send: Callable[[], Awaitable[None]],
        most_s: float,
        trail: Trail | None = None,
    ) -> None:
        gives_up_at = asyncio.get_running_loop().time() + most_s
        tenant_id, traceparent = current_tenant_id(), current_traceparent()
        self._unheard.add(Call(request_id, send, gives_up_at, tenant_id, traceparent, trail))

    async def _close(self, record: bytes, ending: Ending, lifecycle: LifecycleRecord) -> None:
        if ending.started:
            await self._limiter.settle(settle_message(record, ending, lifecycle))
            return
        reason = to_wire(ending.error.reason) if ending.error else _UNSET
        await self._limiter.refund(
            RefundRequest(
                record=record, error_reason=reason, outcome=ending.outcome, lifecycle=lifecycle
            )
        )
