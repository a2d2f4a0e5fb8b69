"""`weir.ratelimiter.v1.RateLimiterService`: validate, call, map."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc
import msgspec
from opentelemetry import trace

from weir.ratelimiter.v1 import ratelimiter_service_pb2 as pb
from weir.ratelimiter.v1.ratelimiter_service_pb2_grpc import RateLimiterServiceServicer
from weir_core.errors import InvalidField, LimitExceeded, WeirError
from weir_core.errors.status import to_refusal
from weir_core.rpc.interceptors.metrics import MetricsInterceptor
from weir_core.telemetry import names
from weir_core.telemetry.context import bind_request
from weir_core.telemetry.tracing import Tracing
from weir_ratelimiter import wire
from weir_ratelimiter.administration import Administration
from weir_ratelimiter.domain.kv_quota import check_kv_quota
from weir_ratelimiter.domain.refusal import refused_for_now
from weir_ratelimiter.domain.reservation import Reservation
from weir_ratelimiter.domain.subject import check_id, check_subject
from weir_ratelimiter.limit_status import StatusWriter
from weir_ratelimiter.limiter import Limiter
from weir_ratelimiter.multiplex import AccountStreams
from weir_ratelimiter.store.base import ExtendedReservation
from weir_ratelimiter.usage_source import UsageSource, used_last_minute

SERVICE = "weir.ratelimiter.v1.RateLimiterService"

_MOST_EXTENSIONS = 1_000
_EXTENDED_AT_ONCE = 50

Context = grpc.aio.ServicerContext[Any, Any]


async def _at_once() -> None:
    """Where limits are known from the start."""


class RateLimiterServicer(RateLimiterServiceServicer):
    """Serves one limiter; exceptions become statuses in the interceptors.

    Args:
        limiter: what is served.
        now_ms: wall time, Unix milliseconds.
        tracing: of calls over shared streams.
        usage: what explanations know of the last minute; None: nothing.
        metrics: counts calls over shared streams; None: nobody counts.
    """

    def __init__(
        self,
        limiter: Limiter,
        now_ms: Callable[[], int],
        tracing: Tracing,
        usage: UsageSource | None = None,
        metrics: MetricsInterceptor | None = None,
        limits_known: Callable[[], Awaitable[object]] = _at_once,
    ) -> None:
        self._limiter = limiter
        self._now_ms = now_ms
        self._usage = usage
        self._statuses = StatusWriter()
        self._administration = Administration(limiter, self._statuses, now_ms)
        self._streams = AccountStreams(self, tracing, metrics)
        self._limits_known = limits_known

    async def Reserve(  # noqa: N802
        self, request: pb.ReserveRequest, context: Context
    ) -> pb.ReserveResponse:
        """Admit or refuse."""
        bind_request(request_id=request.request_id, tenant_id=request.subject.tenant_id)
        admission = await self._limiter.reserve(wire.ask_from(request), dry_run=request.dry_run)
        response = pb.ReserveResponse(
            record=admission.record,
            replayed=admission.replayed,
            limiter_mode=wire.mode_to(admission.degraded),
        )
        self._statuses.write(admission.states, response.limits, self._now_ms())
        reservation = admission.reservation
        if reservation is not None:
            response.reservation_id = reservation.id
            response.reserved_prompt_tokens = reservation.prompt_tokens
            response.reserved_output_tokens = reservation.output_tokens
            wire.write_time(reservation.expires_ms, response.expire_time)
            _annotate(reservation, reservation.prompt_tokens + reservation.output_tokens)
        return response

    async def Extend(  # noqa: N802
        self, request: pb.ExtendRequest, context: Context
    ) -> pb.ExtendResponse:
        """Extend each on its own: one that fails says so in its result."""
        if len(request.extensions) > _MOST_EXTENSIONS:
            bound = f"at most {_MOST_EXTENSIONS}"
            raise InvalidField("extensions", f"{len(request.extensions)} extensions", bound)
        response = pb.ExtendResponse()
        for start in range(0, len(request.extensions), _EXTENDED_AT_ONCE):
            some = request.extensions[start : start + _EXTENDED_AT_ONCE]
            # Together, so that a store that syncs before each reply syncs once for all; in
            # parts, so that the calls of others are served in between.
            response.results.extend(await asyncio.gather(*map(self._extend, some)))
        return response

    async def Settle(  # noqa: N802
        self, request: pb.SettleRequest, context: Context
    ) -> pb.SettleResponse:
        """Charge what ran."""
        ended = await self._limiter.settle(request.record, wire.report_from(request))
        _annotate(ended.reservation)
        return pb.SettleResponse(
            settlement=wire.settlement_to(ended.reservation),
            already_settled=ended.already,
            conflict=ended.conflict,
        )

    async def Refund(  # noqa: N802
        self, request: pb.RefundRequest, context: Context
    ) -> pb.RefundResponse:
        """Give back what never ran."""
        ended = await self._limiter.refund(
            request.record,
            wire.outcome_from(request.outcome),
            wire.lifecycle_from(request.lifecycle),
        )
        _annotate(ended.reservation)
        return pb.RefundResponse(
            settlement=wire.settlement_to(ended.reservation), already_settled=ended.already
        )

    async def Explain(  # noqa: N802
        self, request: pb.ExplainRequest, context: Context
    ) -> pb.ExplainResponse:
        """Say where a caller stands; change nothing."""
        book = self._limiter.book
        subject = check_subject(wire.subject_from(request.subject), model_needed=False)
        subject = book.canonical(subject)
        book.check_known(subject)
        response = pb.ExplainResponse(
            directory_version=book.version,
            limiter_mode=wire.mode_to(self._limiter.degraded),
        )
        violated: set[str] = set()
        if request.HasField("hypothetical"):
            violated = await self._try(request, response)
            asked = book.canonical(wire.ask_from(request.hypothetical).subject)
            subject = subject if subject.model else asked
        if request.reservation_id:
            reservation_id = check_id("reservation_id", request.reservation_id)
            found = await self._limiter.find(subject.tenant_id, reservation_id)
            response.reservation.CopyFrom(wire.reservation_to(found))
        states = await self._limiter.states(subject)
        used = await used_last_minute(self._usage, subject, states) if self._usage else {}
        self._statuses.write(states, response.limits, self._now_ms(), violated, used)
        return response

    async def ListReservations(  # noqa: N802
        self, request: pb.ListReservationsRequest, context: Context
    ) -> pb.ListReservationsResponse:
        """Say who holds what."""
        return await self._administration.list_reservations(request)

    async def AdjustLimit(  # noqa: N802
        self, request: pb.AdjustLimitRequest, context: Context
    ) -> pb.AdjustLimitResponse:
        """Give units or take them."""
        return await self._administration.adjust(request)

    async def Multiplex(  # type: ignore[override]  # noqa: N802
        self, request_iterator: AsyncIterator[pb.MultiplexRequest], context: Context
    ) -> None:
        """Serve one gateway's calls until its stream ends; not before limits are known."""
        await self._limits_known()
        await self._streams.serve(request_iterator, context)

    async def drain(self) -> None:
        """Answer what was asked over streams, and end them; gateways go on by single calls."""
        await self._streams.close("the ratelimiter is stopping")

    async def _extend(self, message: pb.Extension) -> pb.ExtensionResult:
        reservation_id = ""
        try:
            record = self._limiter.read(message.record)
            reservation_id = record.id
            extended = await self._limiter.extend(record, wire.extension_from(message))
        except WeirError as error:
            return pb.ExtensionResult(
                reservation_id=reservation_id,
                error_reason=wire.reason_to(error.reason),
                message=error.message,
            )
        return self._extension_result(extended)

    def _extension_result(self, extended: ExtendedReservation) -> pb.ExtensionResult:
        reservation = extended.reservation
        result = pb.ExtensionResult(
            reservation_id=reservation.id,
            granted=not extended.shortfalls,
            reserved_output_tokens=reservation.output_tokens,
            expire_time=wire.timestamp(reservation.expires_ms),
            in_debt=extended.in_debt,
        )
        if extended.shortfalls:
            refused = refused_for_now(
                extended.shortfalls, self._now_ms(), remedy="send a new request"
            )
            result.error_reason = wire.reason_to(refused.reason)
            result.message = refused.message
            result.refusal.CopyFrom(to_refusal(refused))
        return result

    async def _try(self, request: pb.ExplainRequest, response: pb.ExplainResponse) -> set[str]:
        """Decide a hypothetical request without effect; return the limits that refuse it."""
        message = pb.ReserveRequest()
        message.CopyFrom(request.hypothetical)
        if not message.HasField("subject"):
            message.subject.CopyFrom(request.subject)
        if message.subject.tenant_id != request.subject.tenant_id:
            bound = f"{request.subject.tenant_id}, the tenant asked about"
            raise InvalidField("hypothetical.subject.tenant_id", message.subject.tenant_id, bound)
        message.request_id = message.request_id or "hypothetical"
        book = self._limiter.book
        ask = wire.ask_from(message).checked()
        ask = msgspec.structs.replace(ask, subject=book.canonical(ask.subject))
        book.check_known(ask.subject)
        try:
            check_kv_quota(
                ask.subject.tenant_id,
                book.kv_quota(ask.subject.tenant_id),
                prompt_tokens=ask.prompt_tokens,
                max_new_tokens=ask.max_new_tokens,
            )
            await self._limiter.reserve(ask, dry_run=True)
        except LimitExceeded as refused:
            response.refusal.CopyFrom(to_refusal(refused))
            return {violation.limit_id for violation in refused.violations}
        response.admissible = True
        return set()


def _annotate(reservation: Reservation, reserved: int | None = None) -> None:
    span = trace.get_current_span()
    if not span.is_recording():
        return
    span.set_attribute(names.RESERVATION_ID, reservation.id)
    span.set_attribute(names.TENANT_ID, reservation.subject.tenant_id)
    if reserved is not None:
        span.set_attribute(names.TOKENS_RESERVED, reserved)
