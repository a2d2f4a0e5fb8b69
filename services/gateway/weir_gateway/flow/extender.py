"""Keeps the reservations of living requests alive, in batches over all of them.

One task. A request is reported at the second beat after its dispatch (so that a sweep charges its
prompt; a short answer has ended by then), every third of the lease's life, after every so many
tokens, and, under the policy `estimate`, before it has used up the output that is reserved. Of an
answer that somebody keeps no progress is reported: unless it is settled, it is given back whole.
"""

import asyncio
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from opentelemetry.trace import Span, SpanKind

from weir.ratelimiter.v1.ratelimiter_service_pb2 import Extension, ExtensionResult
from weir_core.errors import Reason, WeirError
from weir_core.errors.status import from_refusal
from weir_core.tasks import end_task
from weir_core.telemetry import names
from weir_core.telemetry.logs import get_logger
from weir_core.telemetry.traceparent import is_sampled
from weir_core.telemetry.tracing import Tracing
from weir_gateway.flow.ending import StopCause, access_ended, failed, quota_stopped
from weir_gateway.flow.lifecycle import record_of
from weir_gateway.flow.live_request import LiveRequest
from weir_gateway.flow.trail import Moment
from weir_gateway.flow.wire_reason import from_wire
from weir_gateway.links.limiter import Limiter

_log = get_logger(__name__)

_MAX_BATCH = 1_000
_MOST_LINKS = 128
# Reasons after which a reservation holds nothing any more.
_LEASE_GONE = (
    Reason.RESERVATION_EXPIRED,
    Reason.RESERVATION_NOT_FOUND,
    Reason.RESERVATION_RECORD_INVALID,
)
_ACCESS_ENDED = (Reason.TENANT_SUSPENDED, Reason.API_KEY_REVOKED)


@dataclass(frozen=True, slots=True)
class ExtendBounds:
    """When reservations are extended.

    Attributes:
        ttl_s: life of a lease; a heartbeat comes every third of it.
        tokens: progress is reported after so many tokens.
        lookahead: output tokens to have reserved ahead of what was made.
        gather_s: how long news gather for one call.
    """

    ttl_s: float = 30.0
    tokens: int = 512
    lookahead: int = 128
    gather_s: float = 0.1


@dataclass(slots=True)
class _Tracked:
    live: LiveRequest
    next_at: float
    renewed_at: float
    told_attempt: int = 0
    seen_attempt: int = 0
    told_tokens: int = 0
    refused: StopCause | None = None


class Extender:
    """See the module.

    Args:
        limiter: the client.
        tracing: each call is a span of one of its requests, with links to the others.
        bounds: when.
    """

    def __init__(
        self, limiter: Limiter, tracing: Tracing, bounds: ExtendBounds | None = None
    ) -> None:
        self._limiter = limiter
        self._tracing = tracing
        self._bounds = bounds or ExtendBounds()
        self._tracked: dict[str, _Tracked] = {}
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begins the beat."""
        self._task = asyncio.create_task(self._run(), name="extender")

    async def stop(self) -> None:
        """Ends it."""
        if self._task is not None:
            await end_task(self._task)
            self._task = None

    def add(self, live: LiveRequest) -> None:
        """Keeps the reservation of a request alive from now on."""
        now = asyncio.get_running_loop().time()
        tracked = self._tracked[live.id] = _Tracked(live, now + self._bounds.ttl_s / 3, now)
        live.on_extend_due = lambda: self._due(tracked)
        self._set_mark(tracked)

    def remove(self, live: LiveRequest) -> None:
        """Its end has come."""
        self._tracked.pop(live.id, None)
        live.on_extend_due = lambda: None

    def _due(self, tracked: _Tracked) -> None:
        """The mark was reached: report soon, and stop what has outrun a refusal."""
        facts = tracked.live.facts
        if tracked.refused is not None and facts.output_tokens >= facts.reserved_output:
            tracked.live.stop(tracked.refused)
            return
        tracked.next_at = 0.0
        tracked.live.extend_at = max(facts.reserved_output, facts.output_tokens + 1)

    def _set_mark(self, tracked: _Tracked) -> None:
        """The next number of output tokens at which something is to be done."""
        facts = tracked.live.facts
        mark = tracked.told_tokens + self._bounds.tokens
        if facts.reserved_output < tracked.live.prepared.output_tokens:
            mark = min(mark, facts.reserved_output - self._bounds.lookahead // 2)
        if facts.output_tokens and facts.output_tokens >= mark:
            tracked.next_at = 0.0
        tracked.live.extend_at = max(mark, facts.output_tokens + 1)

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(self._bounds.gather_s)
            now = loop.time()
            due = [tracked for tracked in self._tracked.values() if _is_due(tracked, now)]
            for start in range(0, len(due), _MAX_BATCH):
                try:
                    await self._extend(due[start : start + _MAX_BATCH], now)
                except Exception as error:
                    # Without the beat every lease would run out.
                    _log.error("extender_failed", exc_info=error)

    async def _extend(self, due: Sequence[_Tracked], now: float) -> None:
        extensions = [self._extension(tracked) for tracked in due]
        for tracked in due:
            tracked.next_at = now + self._bounds.ttl_s / 3
        try:
            with self._span(due):
                results = await self._limiter.extend(extensions)
        except WeirError as error:
            _log.warning("extend_failed", reason=error.reason, requests=len(due))
            for tracked in due:
                self._go_on(tracked, now)
            return
        # By id, never by position: a mistaken match would stop another tenant's request.
        by_id = {result.reservation_id: result for result in results}
        for tracked, extension in zip(due, extensions, strict=True):
            result = by_id.get(tracked.live.facts.reservation_id)
            if result is not None:
                self._take(tracked, extension, result)

    def _span(self, due: Sequence[_Tracked]) -> AbstractContextManager[Span]:
        traces = [tracked.live.trace.traceparent for tracked in due]
        recorded = list(filter(is_sampled, traces))
        return self._tracing.span(
            names.SPAN_EXTEND,
            # Under one that is not recorded neither is this, nor what the ratelimiter does for it.
            parent=(recorded or traces)[0],
            kind=SpanKind.CLIENT,
            attributes={names.EXTENSIONS: len(due)},
            links=recorded[1:_MOST_LINKS],
        )

    def _go_on(self, tracked: _Tracked, now: float) -> None:
        """Without the ratelimiter a request runs on, but not beyond its lease and what it holds."""
        facts = tracked.live.facts
        tracked.next_at = now + min(1.0, self._bounds.ttl_s / 10)
        lapsed = now - tracked.renewed_at > self._bounds.ttl_s
        used_up = facts.reserved_output <= facts.output_tokens
        if lapsed and used_up and facts.reserved_output < tracked.live.prepared.output_tokens:
            cause = failed(
                Reason.LIMITER_UNAVAILABLE,
                f"the ratelimiter was away for more than {self._bounds.ttl_s:.0f} s, and the "
                "tokens that were reserved are used up",
            )
            tracked.live.stop(cause)

    def _extension(self, tracked: _Tracked) -> Extension:
        facts, live = tracked.live.facts, tracked.live
        extension = Extension(record=facts.record, lifecycle=record_of(live))
        if live.keeping is None:
            extension.output_tokens = facts.output_tokens
            extension.dispatched = facts.ever_sent
            extension.prompt_tokens = live.prepared.prompt_tokens if facts.output_tokens else 0
        extension.ttl.FromMilliseconds(round(self._bounds.ttl_s * 1_000))
        most = live.prepared.output_tokens
        if facts.reserved_output < most and facts.ever_sent:
            ahead = min(self._bounds.lookahead, most - facts.output_tokens)
            untold = facts.output_tokens - extension.output_tokens
            extension.additional_output_tokens = max(0, untold + ahead)
        tracked.told_attempt = facts.attempt
        tracked.told_tokens = facts.output_tokens
        return extension

    def _take(self, tracked: _Tracked, sent: Extension, result: ExtensionResult) -> None:
        live = tracked.live
        if live.id not in self._tracked:
            return
        tracked.renewed_at = asyncio.get_running_loop().time()
        if result.reserved_output_tokens > live.facts.reserved_output:
            live.facts.reserved_output = result.reserved_output_tokens
            live.trail.note(Moment.EXTENDED, tokens=result.reserved_output_tokens)
        reason = from_wire(result.error_reason)
        refused_before, tracked.refused = tracked.refused is not None, None
        if not result.granted and reason in _LEASE_GONE:
            live.stop(failed(reason, f"the reservation is gone: {result.message}"))
        elif not result.granted and sent.additional_output_tokens:
            tracked.refused = _refusal(reason, result)
            if not refused_before:
                live.trail.note(Moment.EXTENSION_REFUSED, error=tracked.refused.error)
            tracked.next_at = asyncio.get_running_loop().time() + 1.0
            live.extend_at = live.facts.reserved_output
            if live.facts.output_tokens >= live.facts.reserved_output:
                live.stop(tracked.refused)
        else:
            self._set_mark(tracked)


def _refusal(reason: Reason, result: ExtensionResult) -> StopCause:
    """How a request ends that uses up what is reserved, after it got no more."""
    message = result.message or "the token limit allows no more output"
    if reason in _ACCESS_ENDED:
        return access_ended(WeirError(reason, message))
    return quota_stopped(message, from_refusal(result.refusal))


def _is_due(tracked: _Tracked, now: float) -> bool:
    attempt = tracked.live.facts.attempt
    dispatched = attempt == tracked.seen_attempt != tracked.told_attempt
    tracked.seen_attempt = attempt
    return dispatched or now >= tracked.next_at
