"""The shared stream to one worker; opened for the first attempt, gone for good once lost."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress

import grpc

from weir.common.v1.lifecycle_pb2 import Attempt, Outcome, TerminalRecord
from weir.worker.v1.worker_service_pb2 import (
    AbortAttempt,
    AbortRequest,
    ExecuteRequest,
    ExecuteResponse,
    GetModelInfoRequest,
    StartAttempt,
)
from weir.worker.v1.worker_service_pb2_grpc import WorkerServiceStub
from weir_core.errors import Reason, WeirError
from weir_core.errors.status import from_rpc_error
from weir_core.rpc.framed import FramedOptions, FramedStream, FramedWriter
from weir_core.telemetry.logs import get_logger
from weir_gateway.flow.ports import AttemptListener
from weir_gateway.links.liveness import refuses

_log = get_logger(__name__)

_Item = StartAttempt | AbortAttempt
_Key = tuple[str, int]

_RECOVER_S = 3.0
_RECOVER_CALL_S = 1.5


class WorkerLink:
    """Starts and aborts attempts over one `Execute` stream and hands out what comes back.

    Args:
        channel: to the worker, carrying the cluster secret; closed with the link.
        worker_id: whose it is.
        address: host:port that the channel goes to.
        gateway_id: stable id of this process.
        on_gone: called once when the stream is lost.
        options: bounds of the stream.
    """

    def __init__(
        self,
        channel: grpc.aio.Channel,
        *,
        worker_id: str,
        address: str,
        gateway_id: str,
        on_gone: Callable[["WorkerLink"], None],
        options: FramedOptions | None = None,
    ) -> None:
        self.worker_id = worker_id
        self._address = address
        self._channel = channel
        self._stub = WorkerServiceStub(channel)
        self._gateway_id = gateway_id
        self._on_gone = on_gone
        self._listeners: dict[_Key, AttemptListener] = {}
        self._waiting: list[_Item] = []
        self._writer: FramedWriter[_Item, ExecuteRequest] | None = None
        self._gone = False
        self._heard = False
        self.gpu_id = ""
        self.idle_since = asyncio.get_running_loop().time()
        """When the last attempt ended, loop time."""
        self._stream: FramedStream[_Item, ExecuteRequest, ExecuteResponse] = FramedStream(
            lambda: self._stub.Execute(),
            coalesce=self._frame,
            ping=lambda: ExecuteRequest(gateway_id=gateway_id),
            on_frame=self._on_frame,
            on_connect=self._on_connect,
            on_lost=self._on_lost,
            name=f"worker {worker_id}",
            unavailable_as=Reason.WORKER_LOST,
            options=options,
        )
        self._stream.start()

    @property
    def busy(self) -> bool:
        """Whether attempts run on it."""
        return bool(self._listeners)

    def start(self, message: StartAttempt, listener: AttemptListener) -> None:
        """Starts an attempt; its news go to `listener` until `forget` or its end."""
        attempt = message.spec.attempt
        self._listeners[attempt.request_id, attempt.number] = listener
        self._put(message)

    def abort(self, attempt: Attempt, outcome: "Outcome.ValueType") -> None:
        """Asks for the end of an attempt at the next step."""
        if not self._gone:
            self._put(AbortAttempt(attempt=attempt, cause=outcome))

    def forget(self, attempt: Attempt) -> None:
        """Drops the listener of an attempt."""
        self._listeners.pop((attempt.request_id, attempt.number), None)
        if not self._listeners:
            self.idle_since = asyncio.get_running_loop().time()

    async def identify(self) -> None:
        """Asks once which device the worker runs on; nothing depends on the answer."""
        with suppress(grpc.aio.AioRpcError):
            info = await self._stub.GetModelInfo(GetModelInfoRequest(), timeout=_RECOVER_S)
            self.gpu_id = info.registration.gpu_id

    async def recover(
        self, attempt: Attempt, outcome: "Outcome.ValueType"
    ) -> TerminalRecord | None:
        """The record of an attempt whose stream is lost; None when nobody has it any more.

        Takes 3 s at most, and no time to speak of where the worker's process has ended.
        """
        loop = asyncio.get_running_loop()
        gives_up_at = loop.time() + _RECOVER_S
        request = AbortRequest(attempt=attempt, cause=outcome)
        while (left := gives_up_at - loop.time()) > 0:
            try:
                response = await self._stub.Abort(request, timeout=min(left, _RECOVER_CALL_S))
            except grpc.aio.AioRpcError as error:
                told = from_rpc_error(error, unavailable_as=Reason.WORKER_LOST)
                if told.reason is not Reason.WORKER_LOST or await refuses(self._address):
                    return None
                await asyncio.sleep(0.2)
            else:
                return response.terminal
        return None

    async def close(self, linger_s: float = 0.0) -> None:
        """Ends the stream now, and the channel after `linger_s` more for `recover`."""
        self._gone = True
        await self._stream.stop()
        await asyncio.sleep(linger_s)
        await self._channel.close()

    def _put(self, item: _Item) -> None:
        if self._writer is None:
            self._waiting.append(item)
        else:
            # Their number is bounded by the reservations of living requests.
            self._writer.put_control(item)

    def _frame(self, items: Sequence[_Item]) -> ExecuteRequest:
        return ExecuteRequest(
            gateway_id=self._gateway_id,
            starts=[item for item in items if isinstance(item, StartAttempt)],
            aborts=[item for item in items if isinstance(item, AbortAttempt)],
        )

    def _on_connect(self, writer: FramedWriter[_Item, ExecuteRequest]) -> None:
        if self._gone:
            return
        self._writer = writer
        waiting, self._waiting = self._waiting, []
        for item in waiting:
            writer.put_control(item)

    def _on_lost(self, error: WeirError) -> None:
        if self._gone:
            return
        self._gone = True
        self._writer = None
        listeners, self._listeners = self._listeners, {}
        self._on_gone(self)
        message = f"the worker was lost while it answered: {error.message}"
        for (_, number), listener in listeners.items():
            try:
                listener.on_worker_lost(number, reached=self._heard, message=message)
            except Exception as error:
                _log_fault(error)

    def _on_frame(self, frame: ExecuteResponse) -> None:
        self._heard = True
        for delta in frame.deltas:
            attempt = delta.attempt
            listener = self._listeners.get((attempt.request_id, attempt.number))
            if listener is not None:
                try:
                    listener.on_delta(attempt.number, delta)
                except Exception as error:
                    _log_fault(error)
        for terminal in frame.terminals:
            attempt = terminal.attempt
            listener = self._listeners.get((attempt.request_id, attempt.number))
            if listener is not None:
                self.forget(attempt)
                try:
                    listener.on_terminal(terminal)
                except Exception as error:
                    _log_fault(error)


def _log_fault(error: Exception) -> None:
    """A fault in one request must not cost the others on the stream their news."""
    _log.error("attempt_news_failed", exc_info=error)
