"""Asks the ratelimiter where a caller's limits stand; changes nothing."""

import grpc

from weir.ratelimiter.v1.ratelimiter_service_pb2 import ExplainRequest, ExplainResponse
from weir.ratelimiter.v1.ratelimiter_service_pb2_grpc import RateLimiterServiceStub
from weir_core.errors import Reason, WeirError
from weir_core.errors.status import from_rpc_error


class AccountReader:
    """Reads accounts.

    Args:
        channel: carries the cluster secret.
        timeout_s: of one call.
    """

    def __init__(self, channel: grpc.aio.Channel, *, timeout_s: float = 2.0) -> None:
        self._stub = RateLimiterServiceStub(channel)
        self._timeout_s = timeout_s

    async def explain(self, request: ExplainRequest) -> ExplainResponse:
        """The account of a subject, and what a hypothetical request would meet.

        Raises:
            WeirError: what the ratelimiter refused with, or LIMITER_UNAVAILABLE.
        """
        try:
            return await self._stub.Explain(request, timeout=self._timeout_s)
        except grpc.aio.AioRpcError as error:
            unavailable = Reason.LIMITER_UNAVAILABLE
            told = from_rpc_error(error, unavailable_as=unavailable, peer="the ratelimiter")
        if told.reason in (unavailable, Reason.DEADLINE_EXCEEDED):
            told = WeirError(
                unavailable,
                f"limits cannot be read: {told.message}",
                retry_after_s=told.retry_after_s or 1.0,
            )
        raise told
