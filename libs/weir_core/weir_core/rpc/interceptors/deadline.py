"""The caller's deadline, made known to everything that the handler calls."""

import asyncio
from typing import Any

from weir_core.errors import Reason, WeirError
from weir_core.rpc.deadline import set_budget
from weir_core.rpc.interceptors.handler import (
    HandlerInterceptor,
    Proceed,
    RpcCall,
    RpcMethod,
)


class DeadlineInterceptor(HandlerInterceptor):
    """Refuses what is too late to start and bounds unary calls that came without a deadline.

    Args:
        default_s: bound of unary calls whose caller set none; None for no bound.
        minimum_s: with less than this left nothing is started.

    Streams without a deadline have none: they live by heartbeats.
    """

    def __init__(self, *, default_s: float | None = 30.0, minimum_s: float = 0.001) -> None:
        self._default_s = default_s
        self._minimum_s = minimum_s

    async def around(self, call: RpcCall, proceed: Proceed) -> Any:
        """Serves the RPC within its budget."""
        method = call.method
        left: float | None = call.context.time_remaining()
        if left is not None and left < self._minimum_s:
            raise WeirError(Reason.DEADLINE_EXCEEDED, f"the deadline passed before {method.name}")
        if left is None and method.kind == "unary":
            return await self._bounded(method, proceed)
        set_budget(left)
        return await proceed()

    async def _bounded(self, method: RpcMethod, proceed: Proceed) -> Any:
        set_budget(self._default_s)
        limit = asyncio.timeout(self._default_s)
        try:
            async with limit:
                return await proceed()
        except TimeoutError:
            if not limit.expired():
                raise
            raise WeirError(
                Reason.DEADLINE_EXCEEDED,
                f"{method.name} took more than {self._default_s} s and the call had no deadline",
            ) from None
