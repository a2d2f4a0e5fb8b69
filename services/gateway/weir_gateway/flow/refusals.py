"""Keeps what calls over gRPC are refused with."""

from typing import Any

from weir_core.clock import Clock
from weir_core.errors import WeirError
from weir_core.rpc.interceptors import HandlerInterceptor, RpcCall
from weir_core.rpc.interceptors.handler import Proceed
from weir_gateway.flow.trail import note_refusal


class RefusalsInterceptor(HandlerInterceptor):
    """Innermost: the id of the trail is the `x-request-id` that the caller gets."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    async def around(self, call: RpcCall, proceed: Proceed) -> Any:
        """Serves the RPC."""
        try:
            return await proceed()
        except WeirError as error:
            note_refusal(error, self._clock)
            raise
