"""Calls to a ratelimiter, for commands."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

import grpc

from weir.ratelimiter.v1.ratelimiter_service_pb2_grpc import RateLimiterServiceStub
from weir_cli.errors import CommandError
from weir_cli.stack.running import Door
from weir_core.errors import Reason
from weir_core.errors.status import from_rpc_error
from weir_core.rpc.channel import open_channel

if TYPE_CHECKING:
    from weir.ratelimiter.v1.ratelimiter_service_pb2_grpc import RateLimiterServiceAsyncStub

T = TypeVar("T")

CALL_S = 5.0


async def ask(door: Door, call: "Callable[[RateLimiterServiceAsyncStub], Awaitable[T]]") -> T:
    """Makes one call.

    Raises:
        CommandError: what it was refused with, or that nobody answers.
    """
    async with open_channel(
        door.address, name="ratelimiter", token=door.token, tls=door.tls
    ) as channel:
        try:
            return await call(RateLimiterServiceStub(channel))
        except grpc.aio.AioRpcError as error:
            told = from_rpc_error(
                error, unavailable_as=Reason.LIMITER_UNAVAILABLE, peer="the ratelimiter"
            )
            raise CommandError(f"{door.address}: {told.message}") from None
