# ruff: noqa: N802
"""The scheduler, played by a real gRPC server that does as a test tells it."""

from collections.abc import AsyncIterator, Callable
from typing import Any

from tests.gateway.fake_server import FakeServer, not_played
from tests.gateway.fake_worker import FakeWorker
from weir.common.v1.error_reason_pb2 import ErrorReason
from weir.common.v1.lifecycle_pb2 import Attempt, SignedGrant
from weir.scheduler.v1 import scheduler_service_pb2 as sched
from weir.scheduler.v1.scheduler_service_pb2_grpc import (
    SchedulerServiceServicer,
    add_SchedulerServiceServicer_to_server,
)
from weir_core.errors import Reason
from weir_core.rpc.framed import FramedConnection


class FakeScheduler(SchedulerServiceServicer):
    """Dispatches at once to the first worker that is not excluded, or as a test says."""

    ConnectWorker = staticmethod(not_played)

    def __init__(self, workers: list[FakeWorker]) -> None:
        self.workers = workers
        self.epoch = 0
        self.streams = 0
        self._connection: Any = None
        self.gateways: list[str] = []
        self.reset()
        self.server = FakeServer(lambda s: add_SchedulerServiceServicer_to_server(self, s))

    def reset(self) -> None:
        self.hold = False
        self.model = "tiny"
        self.states: dict[str, str] = {}
        self.dedicated = ""
        self.reject: Callable[[sched.Enqueue], sched.Rejected | None] = lambda _: None
        self.enqueued: list[sched.Enqueue] = []
        self.adopted: list[sched.Enqueue] = []
        self.withdrawn: list[str] = []
        self.failed: list[sched.AttemptFailed] = []
        self.first_tokens: list[Attempt] = []
        self.finished: list[sched.Finish] = []
        self._attempts: dict[str, int] = {}
        self._waiting: dict[str, sched.Enqueue] = {}
        self._excluded: dict[str, set[str]] = {}

    async def GetPoolStatus(
        self, request: sched.GetPoolStatusRequest, context: Any
    ) -> sched.GetPoolStatusResponse:
        depths = [
            sched.QueueDepth(
                model=one.subject.model,
                tenant_id=one.subject.tenant_id,
                reason=sched.QueueReason.QUEUE_REASON_NO_WORKER,
                waiting=1,
            )
            for one in self._waiting.values()
        ]
        pool = sched.PoolStatus(model=self.model, live_workers=len(self.workers))
        return sched.GetPoolStatusResponse(pools=[pool], depths=depths)

    async def GetScalingSignals(
        self, request: sched.GetScalingSignalsRequest, context: Any
    ) -> sched.GetScalingSignalsResponse:
        pool = sched.PoolScaling(model=self.model, min_workers=0, max_workers=4)
        return sched.GetScalingSignalsResponse(pools=[pool])

    async def ListWorkers(
        self, request: sched.ListWorkersRequest, context: Any
    ) -> sched.ListWorkersResponse:
        answer = sched.ListWorkersResponse()
        for worker in self.workers:
            view = answer.workers.add(state=self.states.get(worker.worker_id, "ready"))
            view.registration.worker_id = worker.worker_id
            view.registration.model = self.model
            view.registration.address = worker.server.address
            view.registration.dedicated_tenant_id = self.dedicated
        return answer

    async def ListQueue(
        self, request: sched.ListQueueRequest, context: Any
    ) -> sched.ListQueueResponse:
        return sched.ListQueueResponse(
            requests=[
                sched.QueuedRequest(
                    request_id=waiting.request_id,
                    subject=waiting.subject,
                    position=at,
                    reason=sched.QueueReason.QUEUE_REASON_WORKER_FULL,
                )
                for at, waiting in enumerate(self._waiting.values(), start=1)
                if request.tenant_id in ("", waiting.subject.tenant_id)
            ]
        )

    async def DrainWorker(
        self, request: sched.DrainWorkerRequest, context: Any
    ) -> sched.DrainWorkerResponse:
        self.states[request.worker_id] = "ready" if request.cancel else "draining"
        answer = sched.DrainWorkerResponse()
        answer.worker.registration.worker_id = request.worker_id
        answer.worker.state = self.states[request.worker_id]
        return answer

    async def Dispatch(  # type: ignore[override]
        self, request_iterator: AsyncIterator[sched.DispatchRequest], context: Any
    ) -> None:
        connection: FramedConnection[Any, sched.DispatchResponse, sched.DispatchRequest] = (
            FramedConnection(
                coalesce=lambda events: sched.DispatchResponse(events=events),
                ping=lambda: sched.DispatchResponse(leader_epoch=self.epoch),
                name="gateway",
            )
        )
        self._connection = connection
        self.streams += 1

        def on_frame(frame: sched.DispatchRequest) -> None:
            if frame.gateway_id not in self.gateways:
                self.gateways.append(frame.gateway_id)
            for event in frame.events:
                self._on_event(event)

        await connection.run(context.write, request_iterator, on_frame)

    def send(self, **event: Any) -> None:
        self._connection.writer.put_control(sched.SchedulerEvent(**event))

    def drop_streams(self) -> None:
        self._connection.writer.close("dropped by the test", discard=True)

    def release(self) -> None:
        """Dispatches what was held."""
        self.hold = False
        for request_id in list(self._waiting):
            self.dispatch(request_id)

    def dispatch(self, request_id: str, worker: FakeWorker | None = None) -> None:
        enqueue = self._waiting.pop(request_id)
        excluded = self._excluded.setdefault(request_id, set(enqueue.excluded_workers))
        free = [w for w in self.workers if w.worker_id not in excluded]
        if worker is None and not free:
            self._reject(request_id, Reason.NO_WORKER, "no worker is left")
            return
        worker = worker or free[0]
        number = max(self._attempts.get(request_id, 0), enqueue.attempts) + 1
        self._attempts[request_id] = number
        self.send(
            dispatched=sched.Dispatched(
                attempt=Attempt(request_id=request_id, number=number),
                worker_id=worker.worker_id,
                worker_address=worker.server.address,
                grant=SignedGrant(grant=b"grant", signature=b"signature"),
                max_new_tokens=enqueue.max_new_tokens,
            )
        )

    def requeue(self, request_id: str) -> None:
        """As when a worker is lost before the first token."""
        enqueue = next(e for e in reversed(self.enqueued) if e.request_id == request_id)
        self._waiting[request_id] = enqueue
        self.send(
            requeued=sched.Requeued(
                request_id=request_id,
                error_reason=ErrorReason.ERROR_REASON_WORKER_LOST,
                position=1,
            )
        )

    def _on_event(self, event: sched.GatewayEvent) -> None:
        kind = event.WhichOneof("event")
        if kind == "enqueue":
            self._on_enqueue(event.enqueue)
        elif kind == "withdraw":
            self.withdrawn.append(event.withdraw.request_id)
            self._waiting.pop(event.withdraw.request_id, None)
        elif kind == "attempt_failed":
            self._on_failed(event.attempt_failed)
        elif kind == "first_token":
            self.first_tokens.append(event.first_token.attempt)
        elif kind == "finish":
            self.finished.append(event.finish)

    def _on_enqueue(self, enqueue: sched.Enqueue) -> None:
        if enqueue.running_worker_id:
            self.adopted.append(enqueue)
            return
        self.enqueued.append(enqueue)
        rejected = self.reject(enqueue)
        if rejected is not None:
            self.send(rejected=rejected)
            return
        self._waiting[enqueue.request_id] = enqueue
        if self.hold:
            self.send(
                queued=sched.Queued(
                    request_id=enqueue.request_id,
                    position=len(self._waiting),
                    reason=sched.QueueReason.QUEUE_REASON_WORKER_FULL,
                )
            )
        else:
            self.dispatch(enqueue.request_id)

    def _on_failed(self, failed: sched.AttemptFailed) -> None:
        self.failed.append(failed)
        request_id = failed.attempt.request_id
        enqueue = next(e for e in reversed(self.enqueued) if e.request_id == request_id)
        if failed.worker_fault:
            worker_id = next(
                w.worker_id
                for w in self.workers
                if w.worker_id not in self._excluded.get(request_id, set())
            )
            self._excluded.setdefault(request_id, set()).add(worker_id)
        self.requeue(request_id)
        self._waiting[request_id] = enqueue
        if not self.hold:
            self.dispatch(request_id)

    def _reject(self, request_id: str, reason: Reason, message: str) -> None:
        self.send(
            rejected=sched.Rejected(
                request_id=request_id,
                error_reason=ErrorReason.Value(f"ERROR_REASON_{reason}"),
                message=message,
            )
        )
