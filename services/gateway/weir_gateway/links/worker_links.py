"""All workers that this gateway talks to, each over one shared stream."""

import asyncio
from collections.abc import Callable, Coroutine

import grpc

from weir.common.v1.lifecycle_pb2 import Attempt, Outcome, TerminalRecord
from weir.worker.v1.worker_service_pb2 import StartAttempt
from weir_core.rpc.framed import FramedOptions
from weir_core.tasks import end_task
from weir_core.telemetry.logs import get_logger
from weir_gateway.flow.ports import AttemptListener
from weir_gateway.links.worker_link import WorkerLink

_log = get_logger(__name__)

_LINGER_S = 5.0


class WorkerLinks:
    """The `WorkerPort` of all requests: links open on demand, close when idle or lost.

    Args:
        open_channel: makes a channel to `host:port` that carries the cluster secret.
        gateway_id: stable id of this process.
        idle_s: after so long without an attempt a link is closed.
        options: bounds of the streams.
    """

    def __init__(
        self,
        open_channel: Callable[[str], grpc.aio.Channel],
        *,
        gateway_id: str,
        idle_s: float = 60.0,
        options: FramedOptions | None = None,
    ) -> None:
        self._open_channel = open_channel
        self._gateway_id = gateway_id
        self._idle_s = idle_s
        self._options = options
        self._links: dict[str, WorkerLink] = {}
        self._lost: dict[str, WorkerLink] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._reaper: asyncio.Task[None] | None = None

    def open(self) -> None:
        """Begins to close idle links."""
        self._reaper = asyncio.create_task(self._reap(), name="worker-links")

    async def close(self) -> None:
        """Closes every link."""
        if self._reaper is not None:
            await end_task(self._reaper)
        await asyncio.gather(*map(end_task, list(self._tasks)))
        links = [*self._links.values(), *self._lost.values()]
        self._links.clear()
        self._lost.clear()
        await asyncio.gather(*(link.close() for link in links), return_exceptions=True)

    def start(
        self, worker_id: str, address: str, message: StartAttempt, listener: AttemptListener
    ) -> None:
        """Starts an attempt; a worker that cannot be reached is told as lost."""
        link = self._links.get(worker_id)
        if link is None:
            link = self._links[worker_id] = WorkerLink(
                self._open_channel(address),
                worker_id=worker_id,
                address=address,
                gateway_id=self._gateway_id,
                on_gone=self._on_gone,
                options=self._options,
            )
            self._spawn(link.identify())
        link.start(message, listener)

    def abort(self, worker_id: str, attempt: Attempt, outcome: "Outcome.ValueType") -> None:
        """Asks for the end of an attempt."""
        link = self._links.get(worker_id)
        if link is not None:
            link.abort(attempt, outcome)

    def forget(self, worker_id: str, attempt: Attempt) -> None:
        """Drops the listener of an attempt."""
        link = self._links.get(worker_id)
        if link is not None:
            link.forget(attempt)

    def gpu_id(self, worker_id: str) -> str:
        """The device of a worker, as far as it has told."""
        link = self._links.get(worker_id) or self._lost.get(worker_id)
        return link.gpu_id if link is not None else ""

    def recover(
        self,
        worker_id: str,
        attempt: Attempt,
        outcome: "Outcome.ValueType",
        then: Callable[[TerminalRecord | None], None],
    ) -> None:
        """Aborts over a call of its own and fetches the record, in bounded time."""
        self._spawn(self._recover(worker_id, attempt, outcome, then))

    async def _recover(
        self,
        worker_id: str,
        attempt: Attempt,
        outcome: "Outcome.ValueType",
        then: Callable[[TerminalRecord | None], None],
    ) -> None:
        link = self._links.get(worker_id) or self._lost.get(worker_id)
        then(await link.recover(attempt, outcome) if link is not None else None)

    def _on_gone(self, link: WorkerLink) -> None:
        if self._links.get(link.worker_id) is link:
            del self._links[link.worker_id]
        self._lost[link.worker_id] = link
        self._spawn(self._bury(link))

    async def _bury(self, link: WorkerLink) -> None:
        await link.close(_LINGER_S)
        if self._lost.get(link.worker_id) is link:
            del self._lost[link.worker_id]

    async def _reap(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(self._idle_s / 4)
            before = loop.time() - self._idle_s
            for worker_id, link in list(self._links.items()):
                if not link.busy and link.idle_since < before:
                    del self._links[worker_id]
                    self._spawn(link.close())

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._note)

    def _note(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            _log.error("worker_link_failed", exc_info=task.exception())
