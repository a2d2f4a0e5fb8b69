"""Closes the account of a request: exactly one Settle or Refund, repeated until it is heard."""

import asyncio

from weir.common.v1.error_reason_pb2 import ErrorReason
from weir.common.v1.lifecycle_pb2 import LifecycleRecord
from weir.ratelimiter.v1.ratelimiter_service_pb2 import RefundRequest, SettleRequest
from weir_core.errors import Reason, WeirError
from weir_core.rpc.framed import Backoff
from weir_core.telemetry.logs import get_logger
from weir_gateway.flow.ending import Ending
from weir_gateway.flow.wire_reason import to_wire
from weir_gateway.links.limiter import Limiter

_log = get_logger(__name__)

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

    async def close(self, record: bytes, ending: Ending, lifecycle: LifecycleRecord) -> bool:
        """Settles what ran, or refunds what never started; False when it had to give up."""
        backoff = Backoff(first_s=0.05, most_s=5.0)
        loop = asyncio.get_running_loop()
        gives_up_at = loop.time() + self._give_up_s
        while True:
            try:
                await self._call(record, ending, lifecycle)
            except WeirError as error:
                wait_s = backoff.next_s()
                late = loop.time() + wait_s > gives_up_at
                if late or error.reason not in _WORTH_REPEATING:
                    _log.error("settlement_left_to_sweep", reason=error.reason)
                    return False
            else:
                return True
            await asyncio.sleep(wait_s)

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
