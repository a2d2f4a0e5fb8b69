"""The stream to the scheduler: kept connected, everything waiting asked for again after a loss."""

from collections.abc import Sequence

from weir.common.v1.lifecycle_pb2 import Attempt, Outcome
from weir.common.v1.usage_pb2 import Usage
from weir.scheduler.v1.scheduler_service_pb2 import (
    AttemptFailed,
    DispatchRequest,
    DispatchResponse,
    Enqueue,
    Finish,
    FirstToken,
    GatewayEvent,
    SchedulerEvent,
    Withdraw,
)
from weir.scheduler.v1.scheduler_service_pb2_grpc import SchedulerServiceStub
from weir_core.errors import Reason, WeirError
from weir_core.rpc.framed import FramedOptions, FramedStream, FramedWriter, StreamFull
from weir_core.rpc.leader_channels import LeaderChannels
from weir_core.rpc.leader_epoch import LeaderEpoch
from weir_core.telemetry.logs import get_logger
from weir_gateway.flow.request_records import RequestRecords
from weir_gateway.flow.wire_reason import to_wire

_log = get_logger(__name__)


class SchedulerLink:
    """One multiplexed `Dispatch` stream, the `SchedulerPort` of all requests.

    Of several schedulers it is to the active one. A scheduler of an older term than one that
    was seen already has been replaced without knowing it, and is not listened to.

    Args:
        channels: to the schedulers, with the cluster secret.
        gateway_id: stable id of this process.
        requests: whom events are for.
        options: bounds of the stream.
    """

    def __init__(
        self,
        channels: LeaderChannels,
        *,
        gateway_id: str,
        requests: RequestRecords,
        options: FramedOptions | None = None,
    ) -> None:
        self._channels = channels
        self._leader = LeaderEpoch()
        self._gateway_id = gateway_id
        self._requests = requests
        self._connections = 0
        self._up = False
        self._stream: FramedStream[GatewayEvent, DispatchRequest, DispatchResponse] = FramedStream(
            lambda: SchedulerServiceStub(channels.current).Dispatch(),
            coalesce=self._frame,
            ping=lambda: DispatchRequest(gateway_id=gateway_id),
            on_frame=self._on_frame,
            on_connect=self._on_connect,
            on_lost=self._on_lost,
            name="the scheduler",
            unavailable_as=Reason.SCHEDULER_UNAVAILABLE,
            options=options,
            backoff=channels.backoff(),
        )

    @property
    def epoch(self) -> int:
        """Number of the present connection, 0 while there is none."""
        return self._connections if self._up else 0

    @property
    def address(self) -> str:
        """Of the scheduler that it is connected to, or tries next."""
        return self._channels.address

    def start(self) -> None:
        """Begins to connect."""
        self._stream.start()

    async def stop(self) -> None:
        """Sends what is queued and disconnects."""
        await self._stream.stop()

    async def wait_connected(self, timeout_s: float) -> None:
        """Raises WeirError(SCHEDULER_UNAVAILABLE) when there is none in time."""
        await self._stream.wait_connected(timeout_s)

    def enqueue(self, message: Enqueue) -> bool:
        """Asks for a worker; False while there is no scheduler."""
        return self._send(GatewayEvent(enqueue=message), droppable=True)

    def withdraw(self, request_id: str) -> None:
        """Takes a request out of the queue."""
        self._send(GatewayEvent(withdraw=Withdraw(request_id=request_id)))

    def attempt_failed(self, attempt: Attempt, reason: Reason, *, worker_fault: bool) -> None:
        """Asks for another worker."""
        failure = AttemptFailed(
            attempt=attempt, error_reason=to_wire(reason), worker_fault=worker_fault
        )
        self._send(GatewayEvent(attempt_failed=failure))

    def first_token(self, attempt: Attempt) -> None:
        """Tells that the request can no longer move."""
        self._send(GatewayEvent(first_token=FirstToken(attempt=attempt)))

    def finish(self, attempt: Attempt, usage: Usage, outcome: "Outcome.ValueType") -> None:
        """Tells that an attempt has ended."""
        self._send(GatewayEvent(finish=Finish(attempt=attempt, usage=usage, outcome=outcome)))

    def _send(self, event: GatewayEvent, *, droppable: bool = False) -> bool:
        if not self._up:
            return False
        try:
            if droppable:
                self._stream.put_nowait(event)
            else:
                self._stream.put_control(event)
        except StreamFull as error:
            _log.warning("scheduler_stream_full", why=error.message)
            return False
        except WeirError:
            return False
        return True

    def _frame(self, events: Sequence[GatewayEvent]) -> DispatchRequest:
        return DispatchRequest(gateway_id=self._gateway_id, events=events)

    def _on_connect(self, _: FramedWriter[GatewayEvent, DispatchRequest]) -> None:
        self._up = False

    def _on_lost(self, error: WeirError) -> None:
        self._channels.lost(error)
        if not self._up:
            return
        self._up = False
        for live in self._requests:
            live.on_scheduler_lost()

    def _on_frame(self, frame: DispatchResponse) -> None:
        if not self._up:
            self._connected_to(frame)
        for event in frame.events:
            try:
                self._deliver(event)
            except Exception as error:
                _log.error("scheduler_event_failed", exc_info=error)

    def _connected_to(self, first: DispatchResponse) -> None:
        """Raises WeirError(NOT_LEADER) for a scheduler that was replaced."""
        self._leader.check(first.leader_epoch, "the stream")
        if first.HasField("lease"):
            self._stream.expect_frames(first.lease.ToTimedelta().total_seconds())
        self._channels.answered()
        _log.info("scheduler_found", address=self._channels.address, epoch=first.leader_epoch)
        self._up = True
        self._connections += 1
        for live in self._requests:
            live.on_scheduler_connected()

    def _deliver(self, event: SchedulerEvent) -> None:
        kind = event.WhichOneof("event")
        if kind is None:
            return
        news = getattr(event, kind)
        carries_attempt = kind in ("dispatched", "attempt_lost")
        live = self._requests.live(news.attempt.request_id if carries_attempt else news.request_id)
        if live is not None:
            getattr(live, f"on_{kind}")(news)
