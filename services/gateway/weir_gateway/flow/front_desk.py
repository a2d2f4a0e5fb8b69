"""The life of every request: reserve, queue, run, settle, and one record at the end."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from weir.common.v1.lifecycle_pb2 import LifecycleRecord
from weir_core.clock import Clock
from weir_core.errors import Reason, WeirError
from weir_core.ids import new_request_id
from weir_core.rpc.deadline import set_budget
from weir_core.telemetry import names
from weir_core.telemetry.context import bind_request
from weir_core.telemetry.exemplars import exemplar_of
from weir_core.telemetry.logs import get_logger
from weir_gateway.caller.request_guard import GuardTicket
from weir_gateway.flow.admission import Admission
from weir_gateway.flow.ending import Ending, broken, cancelled, failed
from weir_gateway.flow.extender import Extender
from weir_gateway.flow.keeping import Keeping
from weir_gateway.flow.lifecycle import record_of
from weir_gateway.flow.live_request import LiveRequest
from weir_gateway.flow.live_state import LiveBounds
from weir_gateway.flow.messages import reserve_message
from weir_gateway.flow.ports import SchedulerPort, WorkerPort
from weir_gateway.flow.request_log import log_end
from weir_gateway.flow.request_records import RequestRecords
from weir_gateway.flow.request_span import RequestSpan, RequestSpans
from weir_gateway.flow.reservation import Reservation
from weir_gateway.flow.settler import Settler
from weir_gateway.flow.trail import Moment, Trail
from weir_gateway.flow.unheard import Unheard
from weir_gateway.intake.prepared_request import PreparedRequest
from weir_gateway.links.limiter import AnswerLost, Limiter
from weir_gateway.metrics import GatewayMetrics

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class DeskBounds:
    """Times, seconds.

    Attributes:
        lease_s: life of a reservation without a heartbeat.
        stop_s: for requests that are stopped when the process ends.
    """

    lease_s: float = 30.0
    stop_s: float = 3.0


class FrontDesk:
    """Runs requests, each in a task of its own that no client can cancel.

    Args:
        limiter, scheduler, workers: the other services.
        settler, unheard, extender, records, metrics, spans: see there.
        clock: wall time of records.
        on_admitted, on_end: told of each request that was accepted, then and when it has ended.
        bounds, live_bounds: times.
    """

    def __init__(
        self,
        *,
        limiter: Limiter,
        scheduler: SchedulerPort,
        workers: WorkerPort,
        settler: Settler,
        unheard: Unheard,
        extender: Extender,
        records: RequestRecords,
        metrics: GatewayMetrics,
        spans: RequestSpans,
        clock: Clock,
        on_admitted: Callable[[LiveRequest], None] = lambda live: None,
        on_end: Callable[[LiveRequest, Ending], None] = lambda live, ending: None,
        bounds: DeskBounds | None = None,
        live_bounds: LiveBounds | None = None,
    ) -> None:
        self._limiter = limiter
        self._scheduler = scheduler
        self._workers = workers
        self._settler = settler
        self._unheard = unheard
        self._extender = extender
        self._records = records
        self._metrics = metrics
        self._spans = spans
        self._clock = clock
        self._on_admitted = on_admitted
        self._on_end = on_end
        self._bounds = bounds or DeskBounds()
        self._live_bounds = live_bounds or LiveBounds()
        self._tasks: set[asyncio.Task[None]] = set()
        self._draining = False

    async def admit(
        self,
        prepared: PreparedRequest,
        ticket: GuardTicket,
        *,
        trail: Trail,
        deadline_s: float,
        keeping: Keeping | None = None,
    ) -> Admission:
        """Reserves a request and sets it going.

        Cancelling this call stops the request; so does `live.stop`. Whoever gets an admission
        must stop the request when its client leaves.

        Args:
            prepared: what to run.
            trail: of the request, which gives it its id.
            ticket: kept when the request is admitted; given back when refused or refunded whole.
            deadline_s: after which it is stopped.
            keeping: says who charges the answer; None for the desk itself.

        Raises:
            WeirError: what the ratelimiter refused with, LIMITER_UNAVAILABLE or DRAINING.
        """
        if self._draining:
            ticket.give_back()
            raise WeirError(
                Reason.DRAINING, "this gateway is shutting down; try another", retry_after_s=1.0
            )
        span = self._spans.start(prepared, trail)
        live = self._new_live(prepared, trail, deadline_s, span, keeping)
        admitted: asyncio.Future[Reservation] = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(self._run(live, ticket, admitted, span), name=live.id)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            reservation = await admitted
        except asyncio.CancelledError:
            live.stop(cancelled())
            raise
        return Admission(live, reservation.limits, reservation.degraded)

    def new_id(self) -> str:
        """An id for a further form of a request."""
        return new_request_id(self._clock)

    @property
    def draining(self) -> bool:
        """Whether no new requests are taken."""
        return self._draining

    async def drain(self) -> None:
        """Takes no new requests and returns when the last has ended and is settled."""
        self._draining = True
        while self._tasks:
            await asyncio.wait(self._tasks)
        await self._unheard.drain()

    async def stop(self) -> None:
        """Stops what still runs, settles it, and gives up after `stop_s`."""
        self._draining = True
        part_s = self._bounds.stop_s / 3
        for live in self._records:
            live.stop(failed(Reason.DRAINING, "the gateway was shut down while it answered"))
        await self._wait_tasks(part_s)
        for live in self._records:
            live.end_now()
        await self._wait_tasks(part_s)
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._unheard.stop(part_s)

    async def _wait_tasks(self, timeout_s: float) -> None:
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=timeout_s)

    def _new_live(
        self,
        prepared: PreparedRequest,
        trail: Trail,
        deadline_s: float,
        span: RequestSpan,
        keeping: Keeping | None,
    ) -> LiveRequest:
        live = LiveRequest(
            trail,
            prepared,
            scheduler=self._scheduler,
            workers=self._workers,
            clock=self._clock,
            call_later=asyncio.get_running_loop().call_later,
            deadline_s=deadline_s,
            trace=span.trace,
            bounds=self._live_bounds,
            keeping=keeping,
        )
        trail.begin(live)
        return live

    async def _run(
        self,
        live: LiveRequest,
        ticket: GuardTicket,
        admitted: asyncio.Future[Reservation],
        span: RequestSpan,
    ) -> None:
        set_budget(None)
        span.make_current()
        bind_request(request_id=live.id, tenant_id=live.prepared.subject.tenant_id)
        arrived_us = live.facts.arrived_us = self._clock.now_us()
        self._records.add(live)
        self._metrics.in_flight.inc()
        try:
            reservation = await self._reserve(live, ticket, admitted, span)
            if reservation is not None:
                await self._live_and_end(live, ticket, reservation, admitted, span, arrived_us)
        except Exception as error:
            _log.error("request_failed", exc_info=error)
            span.broken(error)
            self._fail(live, admitted)
        finally:
            live.trail.let_go()
            self._records.drop(live)
            self._metrics.in_flight.dec()
            span.end()

    async def _reserve(
        self,
        live: LiveRequest,
        ticket: GuardTicket,
        admitted: asyncio.Future[Reservation],
        span: RequestSpan,
    ) -> Reservation | None:
        request = reserve_message(live.id, live.prepared, lease_s=self._bounds.lease_s)
        try:
            with span.child(names.SPAN_RESERVE):
                reservation = await self._limiter.reserve(request)
        except WeirError as error:
            ticket.give_back()
            if isinstance(error, AnswerLost):
                self._settler.undo(request)
            live.on_refused()
            self._metrics.refused(error, live.prepared.subject.tenant_id)
            span.refused(error)
            _log.info("request refused", reason=error.reason)
            if not admitted.done():
                admitted.set_exception(error)
            return None
        except BaseException:
            ticket.give_back()
            raise
        ticket.keep()
        return reservation

    async def _live_and_end(
        self,
        live: LiveRequest,
        ticket: GuardTicket,
        reservation: Reservation,
        admitted: asyncio.Future[Reservation],
        span: RequestSpan,
        arrived_us: int,
    ) -> None:
        live.on_reserved(reservation)
        self._extender.add(live)
        try:
            if not admitted.done():
                admitted.set_result(reservation)
            self._on_admitted(live)
            ending = await live.ended
            ours = live.keeping is None or await live.keeping.hand_over(live.delivery, ending)
        finally:
            self._extender.remove(live)
        record = record_of(live, ending)
        if ours:
            # The lease is free before the reply ends, unless the limiter is away.
            await self._settle(live, ending, record, span)
        if not ending.started:
            ticket.give_back()
        live.delivery.finish(ending)
        self._records.close(live, record)
        live.trail.close(record, ending.terminal)
        self._on_end(live, ending)
        self._metrics.ended(record, arrived_us, exemplar_of(span.span))
        span.ended(record, ending, live.facts.worker_address)
        log_end(record, arrived_us)

    async def _settle(
        self, live: LiveRequest, ending: Ending, record: LifecycleRecord, span: RequestSpan
    ) -> None:
        try:
            with span.child(names.SPAN_SETTLE):
                close = self._settler.settle if live.keeping is None else self._settler.give_back
                await close(live.trail, live.facts.record, ending, record)
        except WeirError as error:
            live.trail.note(Moment.LEFT_TO_SWEEP, error=error)
            self._metrics.unsettled()
            _log.error("left_to_sweep", request_id=live.id, reason=error.reason)

    def _fail(self, live: LiveRequest, admitted: asyncio.Future[Reservation]) -> None:
        """A fault of ours: whoever waits is told, with nothing but the id."""
        cause = failed(Reason.INTERNAL, f"internal error, id {live.id}")
        live.stop(cause)
        if not admitted.done():
            admitted.set_exception(cause.error)
        live.delivery.finish(broken(cause.error))
