"""Calls to a scheduler: of the stack on this machine, or of any."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import grpc

from weir.scheduler.v1.scheduler_service_pb2 import ListWorkersRequest
from weir.scheduler.v1.scheduler_service_pb2_grpc import SchedulerServiceStub
from weir_cli.errors import CommandError
from weir_cli.stack.running import Door
from weir_core.errors import Reason, WeirError
from weir_core.errors.startup import StartupError
from weir_core.errors.status import from_rpc_error
from weir_core.rpc.leader_channels import LeaderChannels

if TYPE_CHECKING:
    from weir.scheduler.v1.scheduler_service_pb2_grpc import SchedulerServiceAsyncStub

CALL_S = 5.0
_PAUSE_S = 0.05


@asynccontextmanager
async def scheduler_stub(
    door: Door, patience_s: float = CALL_S
) -> "AsyncIterator[SchedulerServiceAsyncStub]":
    """A stub whose failed calls become CommandError.

    Args:
        door: address and secret; of several addresses, separated by commas, that of the active
            scheduler is used.
        patience_s: for one of several to become active.
    """
    try:
        channels = LeaderChannels(
            door.address, name="scheduler", knob="--address", token=door.token, tls=door.tls
        )
    except StartupError as error:
        raise CommandError(str(error)) from None
    try:
        if len(channels.addresses) > 1:
            await _find_active(channels, patience_s)
        yield SchedulerServiceStub(channels.current)
    except grpc.aio.AioRpcError as error:
        raise CommandError(f"{channels.address}: {_told(error).message}") from None
    finally:
        await channels.close()


async def _find_active(channels: LeaderChannels, patience_s: float) -> None:
    """Raises what the last one that was asked said."""
    end = time.monotonic() + patience_s
    while True:
        try:
            stub = SchedulerServiceStub(channels.current)
            await stub.ListWorkers(ListWorkersRequest(), timeout=CALL_S)
        except grpc.aio.AioRpcError as error:
            if time.monotonic() > end:
                raise
            channels.lost(_told(error))
            await asyncio.sleep(_PAUSE_S)
        else:
            return


def _told(error: grpc.aio.AioRpcError) -> WeirError:
    return from_rpc_error(error, unavailable_as=Reason.SCHEDULER_UNAVAILABLE, peer="the scheduler")
