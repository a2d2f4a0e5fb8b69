"""One gateway's stream."""

from collections.abc import AsyncIterable, Awaitable, Callable, Sequence

from weir.scheduler.v1.scheduler_service_pb2 import (
    DispatchRequest,
    DispatchResponse,
    Enqueue,
    GatewayEvent,
    SchedulerEvent,
)
from weir_core.errors import InvalidField, Reason, WeirError
from weir_core.rpc.framed import FramedConnection, FramedOptions
from weir_core.telemetry.logs import get_logger
from weir_scheduler.scheduler import Scheduler
from weir_scheduler.server import decoding, encoding
from weir_scheduler.server.pump import Pump
from weir_scheduler.server.streams import Streams

_log = get_logger(__name__)


class GatewayStream:
    """Passes a gateway's events to the scheduler; its end is not yet the loss of the gateway.

    Args:
        scheduler: of the process.
        streams: where events go out.
        pump: poked after every frame.
        options: heartbeat and stall bounds.
    """

    def __init__(
        self, scheduler: Scheduler, streams: Streams, pump: Pump, options: FramedOptions
    ) -> None:
        self._scheduler = scheduler
        self._streams = streams
        self._pump = pump
        self._gateway = ""
        self._connection: FramedConnection[SchedulerEvent, DispatchResponse, DispatchRequest] = (
            FramedConnection(
                coalesce=_frame_of,
                ping=lambda: encoding.heartbeat(streams.term),
                name="gateway",
                options=options,
            )
        )

    async def serve(
        self,
        frames: AsyncIterable[DispatchRequest],
        send: Callable[[DispatchResponse], Awaitable[object]],
    ) -> None:
        """Runs the stream to its end."""
        try:
            await self._connection.run(send, frames, self._on_frame)
        finally:
            if self._streams.detach_gateway(self._gateway, self._connection.writer):
                _log.info("gateway_stream_ended", gateway_id=self._gateway)
                self._scheduler.gateway_away(self._gateway)
                self._pump.poke()

    def _on_frame(self, frame: DispatchRequest) -> None:
        if not self._gateway:
            self._begin(frame.gateway_id)
        for event in frame.events:
            try:
                self._take(event)
            except Exception as error:
                # The events of other requests in the frame must not be lost with it.
                _log.error("event_failed", kind=event.WhichOneof("event"), exc_info=error)
        self._pump.poke()

    def _begin(self, gateway_id: str) -> None:
        if not gateway_id:
            raise InvalidField("gateway_id", "", "set in the first frame")
        self._gateway = gateway_id
        # Only now that a newer stream speaks is the older one known to be dead.
        self._scheduler.gateway_came(gateway_id)
        self._streams.attach_gateway(gateway_id, self._connection.writer)
        _log.info("gateway_connected", gateway_id=gateway_id)

    def _take(self, event: GatewayEvent) -> None:
        scheduler, gateway = self._scheduler, self._gateway
        match event.WhichOneof("event"):
            case "enqueue":
                self._enqueue(event.enqueue)
            case "withdraw":
                scheduler.withdraw(gateway, event.withdraw.request_id)
            case "attempt_failed":
                failed = event.attempt_failed
                scheduler.attempt_failed(
                    gateway,
                    decoding.attempt_key(failed.attempt),
                    decoding.reason(failed.error_reason),
                    worker_fault=failed.worker_fault,
                )
            case "first_token":
                scheduler.first_token(gateway, decoding.attempt_key(event.first_token.attempt))
            case "finish":
                finish = event.finish
                used = decoding.usage(finish.usage) if finish.HasField("usage") else None
                scheduler.finish(gateway, decoding.attempt_key(finish.attempt), used)

    def _enqueue(self, message: Enqueue) -> None:
        try:
            request = decoding.new_request(message)
        except InvalidField as error:
            self._streams.rejected(self._gateway, message.request_id, error)
            return
        try:
            self._scheduler.enqueue(self._gateway, request)
        except Exception:
            # Without an answer its client would wait to the end of its deadline.
            cause = WeirError(Reason.INTERNAL, "the scheduler could not take the request in")
            self._streams.rejected(self._gateway, message.request_id, cause)
            raise


def _frame_of(events: Sequence[SchedulerEvent]) -> DispatchResponse:
    return DispatchResponse(events=events)
