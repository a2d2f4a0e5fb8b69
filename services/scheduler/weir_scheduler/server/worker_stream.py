"""One worker's stream."""

import dataclasses
from collections.abc import AsyncIterable, Awaitable, Callable, Sequence

from weir.scheduler.v1.scheduler_service_pb2 import ConnectWorkerRequest, ConnectWorkerResponse
from weir.scheduler.v1.worker_report_pb2 import WorkerRegistration
from weir_core.errors import InvalidField
from weir_core.rpc.framed import FramedConnection, FramedOptions
from weir_core.telemetry.logs import get_logger
from weir_scheduler.dispatch.bounds import Bounds
from weir_scheduler.scheduler import Scheduler
from weir_scheduler.server import decoding, encoding
from weir_scheduler.server.pump import Pump
from weir_scheduler.server.streams import Streams

_log = get_logger(__name__)


class WorkerStream:
    """Registers a worker, passes its reports on, and carries commands to it.

    Args:
        scheduler: of the process.
        streams: where commands go out.
        pump: poked after every frame.
        bounds: told to the worker.
        options: heartbeat and stall bounds.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        streams: Streams,
        pump: Pump,
        bounds: Bounds,
        options: FramedOptions,
    ) -> None:
        self._scheduler = scheduler
        self._streams = streams
        self._pump = pump
        self._bounds = bounds
        self._worker_id = ""
        self._connection: FramedConnection[
            ConnectWorkerResponse, ConnectWorkerResponse, ConnectWorkerRequest
        ] = FramedConnection(
            coalesce=_only,
            ping=ConnectWorkerResponse,
            name="worker",
            # A frame is one command.
            options=dataclasses.replace(options, max_frame_items=1),
        )

    async def serve(
        self,
        frames: AsyncIterable[ConnectWorkerRequest],
        send: Callable[[ConnectWorkerResponse], Awaitable[object]],
    ) -> None:
        """Runs the stream to its end."""
        try:
            await self._connection.run(send, frames, self._on_frame)
        finally:
            if self._streams.detach_worker(self._worker_id, self._connection.writer):
                _log.info("worker_stream_ended", worker_id=self._worker_id)
                self._scheduler.worker_disconnected(self._worker_id)
                self._pump.poke()

    def _on_frame(self, frame: ConnectWorkerRequest) -> None:
        match frame.WhichOneof("message"):
            case "registration":
                self._register(frame.registration)
            case "report" if self._worker_id:
                report = decoding.worker_report(frame.report)
                self._scheduler.worker_report(self._worker_id, report)
            case "report":
                raise InvalidField("message", "a report", "a registration in the first frame")
            case _ if self._worker_id:
                self._scheduler.worker_heard(self._worker_id)
        self._pump.poke()

    def _register(self, message: WorkerRegistration) -> None:
        info = decoding.worker_info(message)
        if self._worker_id and info.worker_id != self._worker_id:
            raise InvalidField("registration.worker_id", info.worker_id, f"{self._worker_id!r}")
        self._worker_id = info.worker_id
        # Attached first: what the registration leads to may be commands for this worker.
        self._streams.attach_worker(info.worker_id, self._connection.writer)
        running = [decoding.attempt_key(attempt) for attempt in message.running]
        worker = self._scheduler.register_worker(info, running)
        answer = encoding.registered(
            worker.rules,
            self._bounds.report_interval_us,
            self._bounds.loss_us,
            self._streams.term,
        )
        self._connection.writer.put_control(ConnectWorkerResponse(registered=answer))
        _log.info(
            "worker_registered",
            worker_id=info.worker_id,
            address=info.address,
            model=info.model,
            running=len(running),
        )


def _only(commands: Sequence[ConnectWorkerResponse]) -> ConnectWorkerResponse:
    (command,) = commands
    return command
