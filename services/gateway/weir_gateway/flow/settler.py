"""Closes the account of a request: exactly one Settle or Refund, repeated until it is heard."""

import asyncio

from weir.common.v1.error_reason_pb2 import ErrorReason
from weir.common.v1.lifecycle_pb2 import LifecycleRecord
from weir.ratelimiter.v1.ratelimiter_service_pb2 import RefundRequest, SettleRequest
from weir_core.errors import Reason, WeirError
from weir_core.rpc.framed import Backoff
from weir_gateway.flow.ending import Ending
from weir_gateway.flow.wire_reason import to_wire
from weir_gateway.links.limiter import Limiter

_UNSET = ErrorReason.ERROR_REASON_UNSPECIFIED
_WORTH_REPEATING = (Reason.LIMITER_UNAVAILABLE, Reason.INTERNAL)


class Settler:
    """Settles with the ratelimiter.

    Args:
        limiter: the client; its calls are idempotent by the record.
        give_up_s: after so long the rest is left to the ratelimiter's sweep, which settles
            from the last progress.
    """

    def __init__(self, limiter: Limiter, *, give_up_s: float = 60.0) -> None:
        self._limiter = limiter
        self._give_up_s = give_up_s

    async def settle(self, record: bytes, ending: Ending, lifecycle: LifecycleRecord) -> bool:
        """Settles what ran, or refunds what never started, with one call; False: not heard.

        Raises:
            WeirError: the ratelimiter refuses for good.
        """
        try:
            await self._call(record, ending, lifecycle)
        except WeirError as error:
            if error.reason in _WORTH_REPEATING:
                return False
            raise
        return True

    async def persist(self, record: bytes, ending: Ending, lifecycle: LifecycleRecord) -> bool:
        """Goes on after a first call was not heard; False when it had to give up."""
        backoff = Backoff(first_s=0.05, most_s=5.0)
        loop = asyncio.get_running_loop()
        gives_up_at = loop.time() + self._give_up_s
        while loop.time() < gives_up_at:
            await asyncio.sleep(backoff.next_s())
            if await self.settle(record, ending, lifecycle):
                return True
        return False

    async def _call(self, record: bytes, ending: Ending, lifecycle: LifecycleRecord) -> None:
        if ending.started:
            await self._limiter.settle(
                SettleRequest(
                    record=record,
                    usage=ending.usage,
                    usage_quality=ending.quality,
                    outcome=ending.outcome,
                    lifecycle=lifecycle,
                )
            )
            return
        reason = to_wire(ending.error.reason) if ending.error else _UNSET
        await self._limiter.refund(
            RefundRequest(
                record=record, error_reason=reason, outcome=ending.outcome, lifecycle=lifecycle
            )
        )
