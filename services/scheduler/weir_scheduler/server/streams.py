"""The open streams of gateways and workers, and what is sent on them."""

import asyncio
import time
from collections.abc import Sequence
from typing import TypeVar

from weir.scheduler.v1.scheduler_service_pb2 import (
    AttemptLost,
    ConnectWorkerResponse,
    DispatchResponse,
    Queued,
    Requeued,
    SchedulerEvent,
)
from weir.scheduler.v1.worker_report_pb2 import AbortAttempts, DrainCommand
from weir_core.errors import WeirError
from weir_core.grants import sign_grant
from weir_core.rpc.framed import FramedWriter
from weir_scheduler.dispatch.outbox import Dispatch
from weir_scheduler.leadership.term import Term
from weir_scheduler.queues.wait_reason import WaitReason
from weir_scheduler.rules.rules import WorkerRules
from weir_scheduler.server import encoding
from weir_scheduler.workers.attempt_key import AttemptKey

GatewayWriter = FramedWriter[SchedulerEvent, DispatchResponse]
WorkerWriter = FramedWriter[ConnectWorkerResponse, ConnectWorkerResponse]
ItemT = TypeVar("ItemT")
FrameT = TypeVar("FrameT")

_LOOK_S = 0.005


class Streams:
    """The scheduler's `Outbox`: events go to the stream of their gateway or worker.

    Events are never refused for their number: the gateway bounds its requests, and position
    events are limited by the announcer.

    Args:
        secret: signs grants.

    Attributes:
        term: stands in grants and in what peers are told first.
    """

    def __init__(self, secret: bytes) -> None:
        self.term = Term()
        self._secret = secret
        self._gateways: dict[str, GatewayWriter] = {}
        self._workers: dict[str, WorkerWriter] = {}
        self._closed_because = ""

    def attach_gateway(self, gateway: str, writer: GatewayWriter) -> None:
        """The gateway speaks on this stream from now on; an older one is closed."""
        _attach(self._gateways, gateway, writer)
        self._close_late(writer)

    def detach_gateway(self, gateway: str, writer: GatewayWriter) -> bool:
        """The stream has ended; whether it was the gateway's present one."""
        return _detach(self._gateways, gateway, writer)

    def attach_worker(self, worker_id: str, writer: WorkerWriter) -> None:
        """The worker speaks on this stream from now on; an older one is closed."""
        _attach(self._workers, worker_id, writer)
        self._close_late(writer)

    def detach_worker(self, worker_id: str, writer: WorkerWriter) -> bool:
        """The stream has ended; whether it was the worker's present one."""
        return _detach(self._workers, worker_id, writer)

    @property
    def open(self) -> int:
        """Streams of gateways and workers."""
        return len(self._gateways) + len(self._workers)

    @property
    def peers(self) -> list[str]:
        """Names of the gateways and workers that have one."""
        return [*self._gateways, *self._workers]

    async def wait_closed(self, limit_s: float) -> None:
        """Returns when every stream has ended, or after `limit_s`."""
        end = time.monotonic() + limit_s
        while self.open and time.monotonic() < end:  # noqa: ASYNC110 - at shutdown only
            await asyncio.sleep(_LOOK_S)

    def cut(self, why: str) -> None:
        """Ends every present stream; what is queued on it is not sent any more."""
        for gateway in self._gateways.values():
            gateway.close(why, discard=True)
        for worker in self._workers.values():
            worker.close(why, discard=True)

    def close(self, why: str) -> None:
        """Ends every stream, later ones too, once what is queued on it is written."""
        self._closed_because = why
        for gateway in self._gateways.values():
            gateway.close(why)
        for worker in self._workers.values():
            worker.close(why)

    def queued(self, gateway: str, request_id: str, position: int, reason: WaitReason) -> None:
        """See `Outbox.queued`."""
        why = encoding.wait_reason(reason)
        message = Queued(request_id=request_id, position=position, reason=why)
        self._to_gateway(gateway, SchedulerEvent(queued=message))

    def dispatched(self, gateway: str, dispatch: Dispatch) -> None:
        """See `Outbox.dispatched`."""
        signed = sign_grant(encoding.grant(dispatch, self.term.epoch), self._secret)
        event = encoding.dispatched(dispatch, signed)
        self._to_gateway(gateway, event)

    def requeued(self, gateway: str, request_id: str, cause: WeirError, position: int) -> None:
        """See `Outbox.requeued`."""
        reason = encoding.reason(cause.reason)
        message = Requeued(request_id=request_id, error_reason=reason, position=position)
        self._to_gateway(gateway, SchedulerEvent(requeued=message))

    def preempt(self, gateway: str, key: AttemptKey, cause: WeirError) -> None:
        """See `Outbox.preempt`."""
        message = Requeued(
            request_id=key.request_id,
            error_reason=encoding.reason(cause.reason),
            attempt=encoding.attempt(key),
        )
        self._to_gateway(gateway, SchedulerEvent(requeued=message))

    def rejected(self, gateway: str, request_id: str, cause: WeirError) -> None:
        """See `Outbox.rejected`."""
        self._to_gateway(gateway, encoding.rejected(request_id, cause))

    def attempt_lost(self, gateway: str, key: AttemptKey, cause: WeirError) -> None:
        """See `Outbox.attempt_lost`."""
        reason = encoding.reason(cause.reason)
        attempt = encoding.attempt(key)
        message = AttemptLost(attempt=attempt, error_reason=reason, message=cause.message)
        self._to_gateway(gateway, SchedulerEvent(attempt_lost=message))

    def abort(self, worker_id: str, keys: Sequence[AttemptKey], why: str) -> None:
        """See `Outbox.abort`."""
        attempts = [encoding.attempt(key) for key in keys]
        command = AbortAttempts(attempts=attempts, reason=why)
        self._to_worker(worker_id, ConnectWorkerResponse(abort=command))

    def drain(self, worker_id: str, *, cancel: bool) -> None:
        """See `Outbox.drain`."""
        self._to_worker(worker_id, ConnectWorkerResponse(drain=DrainCommand(cancel=cancel)))

    def parameters(self, worker_id: str, rules: WorkerRules) -> None:
        """See `Outbox.parameters`."""
        command = ConnectWorkerResponse(parameters=encoding.parameters(rules))
        self._to_worker(worker_id, command)

    def _close_late(self, writer: GatewayWriter | WorkerWriter) -> None:
        if self._closed_because:
            writer.close(self._closed_because)

    def _to_gateway(self, gateway: str, event: SchedulerEvent) -> None:
        writer = self._gateways.get(gateway)
        if writer is not None and not writer.closed:
            writer.put_control(event)

    def _to_worker(self, worker_id: str, command: ConnectWorkerResponse) -> None:
        writer = self._workers.get(worker_id)
        if writer is not None and not writer.closed:
            writer.put_control(command)


def _attach(
    writers: dict[str, FramedWriter[ItemT, FrameT]], name: str, writer: FramedWriter[ItemT, FrameT]
) -> None:
    older = writers.get(name)
    writers[name] = writer
    if older is not None and older is not writer:
        older.close("replaced by a newer stream of the same peer", discard=True)


def _detach(
    writers: dict[str, FramedWriter[ItemT, FrameT]], name: str, writer: FramedWriter[ItemT, FrameT]
) -> bool:
    if writers.get(name) is not writer:
        return False
    del writers[name]
    return True
