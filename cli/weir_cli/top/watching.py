"""Follows the history of a gateway, and comes back when it was away."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import grpc
from google.protobuf.duration_pb2 import Duration

from weir.gateway.v1.history_service_pb2 import HistorySample, WatchHistoryRequest
from weir.gateway.v1.history_service_pb2_grpc import HistoryServiceStub
from weir_cli.errors import CommandError
from weir_cli.stack.running import Door
from weir_core.errors import Reason
from weir_core.errors.status import from_rpc_error
from weir_core.rpc.channel import open_channel

_PAUSE_S = 1.0
_AWAY = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)


async def watch(door: Door, step_s: float) -> AsyncGenerator[HistorySample | str, None]:
    """Samples, and why there are none while the gateway is away.

    Raises:
        CommandError: it refuses, or was away from the beginning.
    """
    request = WatchHistoryRequest(step=_duration(step_s))
    heard = False
    async with open_channel(
        door.address, name="gateway", token=door.token, tls=door.tls
    ) as channel:
        stub: Any = HistoryServiceStub(channel)
        while True:
            try:
                async for response in stub.WatchHistory(request):
                    heard = True
                    yield response.sample
                why = "the gateway ended the stream"
            except grpc.aio.AioRpcError as error:
                told = from_rpc_error(
                    error, unavailable_as=Reason.DIRECTORY_UNAVAILABLE, peer="the gateway"
                )
                if not heard or error.code() not in _AWAY:
                    raise CommandError(f"{door.address}: {told.message}") from None
                why = told.message
            yield f"{why}; trying again"
            await asyncio.sleep(_PAUSE_S)


def _duration(seconds: float) -> Duration:
    duration = Duration()
    duration.FromMicroseconds(round(seconds * 1e6))
    return duration
