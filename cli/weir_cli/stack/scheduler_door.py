"""Calls to a scheduler: of the stack on this machine, or of any."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import grpc

from weir.scheduler.v1.scheduler_service_pb2_grpc import SchedulerServiceStub
from weir_cli.errors import CommandError
from weir_cli.stack.running import Door
from weir_core.errors import Reason
from weir_core.errors.status import from_rpc_error
from weir_core.rpc.channel import open_channel

if TYPE_CHECKING:
    from weir.scheduler.v1.scheduler_service_pb2_grpc import SchedulerServiceAsyncStub

CALL_S = 5.0


@asynccontextmanager
async def scheduler_stub(door: Door) -> "AsyncIterator[SchedulerServiceAsyncStub]":
    """A stub whose failed calls become CommandError."""
    async with open_channel(door.address, name="scheduler", token=door.token) as channel:
        try:
            yield SchedulerServiceStub(channel)
        except grpc.aio.AioRpcError as error:
            told = from_rpc_error(
                error, unavailable_as=Reason.SCHEDULER_UNAVAILABLE, peer="the scheduler"
            )
            raise CommandError(f"{door.address}: {told.message}") from None
