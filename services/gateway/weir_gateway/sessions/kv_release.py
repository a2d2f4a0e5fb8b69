"""Tells workers to give up the KV of sessions that are no more."""

import asyncio
from collections.abc import Callable, Mapping

import grpc

from weir.worker.v1.worker_service_pb2 import ReleaseSessionRequest
from weir.worker.v1.worker_service_pb2_grpc import WorkerServiceStub
from weir_core.tasks import end_task
from weir_core.telemetry.logs import get_logger

_log = get_logger(__name__)

_CALL_S = 2.0
_MOST_WAITING = 10_000
_CALLS_AT_ONCE = 16


class KvRelease:
    """Calls `ReleaseSession` of workers; one that cannot be reached gives it up by itself, when
    the session's idle time is over.

    Args:
        open_channel: makes a channel to `host:port` that carries the cluster secret.
    """

    def __init__(self, open_channel: Callable[[str], grpc.aio.Channel]) -> None:
        self._open_channel = open_channel
        self._calls = asyncio.Semaphore(_CALLS_AT_ONCE)
        self._tasks: set[asyncio.Task[None]] = set()

    async def release_soon(
        self, tenant_id: str, session_id: str, addresses: Mapping[str, str]
    ) -> None:
        """Asks workers at once and returns when all have answered, or after a short time; it
        goes on whoever leaves meanwhile.

        Args:
            tenant_id, session_id: which session.
            addresses: `host:port` by worker id.
        """
        task = self.release_later(tenant_id, session_id, addresses)
        if task is not None:
            await asyncio.wait({task}, timeout=_CALL_S)

    def release_later(
        self, tenant_id: str, session_id: str, addresses: Mapping[str, str]
    ) -> asyncio.Task[None] | None:
        """Does so in the background; None where there is nothing to do, or too much."""
        if not addresses or len(self._tasks) >= _MOST_WAITING:
            return None
        task = asyncio.create_task(self._release(tenant_id, session_id, dict(addresses)))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def stop(self) -> None:
        """Ends what still runs in the background."""
        await asyncio.gather(*map(end_task, list(self._tasks)))

    async def _release(self, tenant_id: str, session_id: str, addresses: Mapping[str, str]) -> None:
        request = ReleaseSessionRequest(tenant_id=tenant_id, session_id=session_id)
        await asyncio.gather(
            *(self._call(request, worker, address) for worker, address in addresses.items())
        )

    async def _call(self, request: ReleaseSessionRequest, worker: str, address: str) -> None:
        async with self._calls:
            channel = self._open_channel(address)
            try:
                await WorkerServiceStub(channel).ReleaseSession(request, timeout=_CALL_S)
            except grpc.aio.AioRpcError as error:
                _log.info("session_kv_not_released", worker_id=worker, code=error.code().name)
            finally:
                await channel.close()
