"""Spans of requests, written when an attempt has ended."""

from opentelemetry.context import Context
from opentelemetry.trace import SpanKind

from weir.common.v1.lifecycle_pb2 import TerminalRecord, TraceContext
from weir.worker.v1.worker_service_pb2 import GenerationSpec
from weir_core.errors import Reason
from weir_core.telemetry import names
from weir_core.telemetry.error_kind import kind_of
from weir_core.telemetry.span_context import context_from, unrecorded_span
from weir_core.telemetry.traceparent import as_sampled
from weir_core.telemetry.tracing import Attribute, SpanEvent, Tracing
from weir_worker.engine.events import FinishReason, Terminal
from weir_worker.engine.timeline import Moment, MomentKind
from weir_worker.running_attempt import RunningAttempt
from weir_worker.terminal_record import reason_of


class RequestTraces:
    """One `worker` span an attempt, with `prefill` and `decode` inside it.

    Prefill chunks and pre-emptions are events of the `worker` span.

    Requests share streams, so the parent comes with the start; and no span is open while
    tokens flow: all are written from timestamps. Those of a trace that is not recorded are
    written when the attempt failed.

    Args:
        tracing: of the process.
        worker_id, model: attributes of every span.
    """

    def __init__(self, tracing: Tracing, *, worker_id: str, model: str) -> None:
        self._tracing = tracing
        self._worker_id = worker_id
        self._model = model

    def attempt_started(self, attempt: RunningAttempt) -> None:
        """See `AttemptObserver`."""

    def attempt_ended(
        self, attempt: RunningAttempt, terminal: Terminal, record: TerminalRecord
    ) -> None:
        """See `AttemptObserver`."""
        failed = terminal.finish_reason in (FinishReason.ERROR, FinishReason.REJECTED)
        trace = attempt.trace
        if unrecorded_span(trace.traceparent) is not None:
            if not failed or not self._keeps(trace, record):
                return
            trace = _sampled(trace)
        attributes = self._attributes(attempt, terminal)
        if failed:
            attributes[names.ERROR_TYPE] = reason_of(record)
        worker = self._tracing.record(
            names.SPAN_WORKER,
            parent=_context(trace),
            start_us=attempt.received_us,
            end_us=terminal.end_us,
            kind=SpanKind.SERVER,
            attributes=attributes,
            events=[_event(moment) for moment in terminal.timeline],
            error=reason_of(record) if failed else None,
        )
        if terminal.prefill_start_us:
            usage = terminal.usage
            self._tracing.record(
                names.SPAN_PREFILL,
                parent=worker,
                start_us=terminal.prefill_start_us,
                end_us=terminal.prefill_end_us or terminal.end_us,
                attributes={
                    names.TENANT_ID: attempt.tenant,
                    names.GEN_AI_USAGE_INPUT_TOKENS: usage.prompt_tokens,
                    names.GEN_AI_USAGE_CACHE_READ_TOKENS: usage.cached_prompt_tokens,
                },
            )
        if terminal.first_token_us:
            self._tracing.record(
                names.SPAN_DECODE,
                parent=worker,
                start_us=terminal.first_token_us,
                end_us=terminal.end_us,
                attributes={
                    names.TENANT_ID: attempt.tenant,
                    names.GEN_AI_USAGE_OUTPUT_TOKENS: terminal.usage.completion_tokens,
                },
            )

    def attempt_refused(
        self, spec: GenerationSpec, record: TerminalRecord, *, recorded: bool
    ) -> None:
        """See `AttemptObserver`."""
        trace = spec.trace
        if unrecorded_span(trace.traceparent) is not None:
            # What ends nothing says nothing about the request.
            if not recorded or not self._keeps(trace, record):
                return
            trace = _sampled(trace)
        now_us = record.end_time.ToMicroseconds()
        self._tracing.record(
            names.SPAN_WORKER,
            parent=_context(trace),
            start_us=now_us,
            end_us=now_us,
            kind=SpanKind.SERVER,
            attributes={
                names.REQUEST_ID: spec.attempt.request_id[:128],
                names.TENANT_ID: spec.tenant_id,
                names.ATTEMPT: spec.attempt.number,
                names.WORKER_ID: self._worker_id,
                names.REASON: reason_of(record),
                names.ERROR_TYPE: reason_of(record),
            },
            error=reason_of(record),
        )

    def _keeps(self, trace: TraceContext, record: TerminalRecord) -> bool:
        return self._tracing.keeps(trace.traceparent, kind_of(Reason(reason_of(record))))

    def _attributes(self, attempt: RunningAttempt, terminal: Terminal) -> dict[str, Attribute]:
        request_id, number = attempt.key
        usage, sampling = terminal.usage, attempt.sampling
        attributes: dict[str, Attribute] = {
            names.REQUEST_ID: request_id,
            names.TENANT_ID: attempt.tenant,
            names.ATTEMPT: number,
            names.WORKER_ID: self._worker_id,
            names.GEN_AI_PROVIDER: names.PROVIDER,
            names.GEN_AI_REQUEST_MODEL: self._model,
            names.GEN_AI_RESPONSE_MODEL: self._model,
            names.GEN_AI_REQUEST_MAX_TOKENS: attempt.max_new_tokens,
            names.GEN_AI_REQUEST_TEMPERATURE: sampling.temperature,
            names.GEN_AI_REQUEST_TOP_P: sampling.top_p,
            names.GEN_AI_REQUEST_TOP_K: sampling.top_k,
            names.GEN_AI_RESPONSE_FINISH_REASONS: [terminal.finish_reason.value],
            names.GEN_AI_USAGE_INPUT_TOKENS: usage.prompt_tokens,
            names.GEN_AI_USAGE_OUTPUT_TOKENS: usage.completion_tokens,
            names.GEN_AI_USAGE_CACHE_READ_TOKENS: usage.cached_prompt_tokens,
        }
        if sampling.seed is not None:
            attributes[names.GEN_AI_REQUEST_SEED] = sampling.seed
        if terminal.failure is not None:
            attributes[names.REASON] = terminal.failure.reason.value
        attributes.update(_latencies(attempt, terminal))
        return attributes


def _latencies(attempt: RunningAttempt, terminal: Terminal) -> dict[str, Attribute]:
    """Seconds, of the phases that were reached."""
    moments = {
        names.LATENCY_TIME_IN_QUEUE: (attempt.received_us, terminal.prefill_start_us),
        names.LATENCY_TIME_IN_PREFILL: (terminal.prefill_start_us, terminal.prefill_end_us),
        names.LATENCY_TIME_TO_FIRST_TOKEN: (attempt.received_us, terminal.first_token_us),
        names.LATENCY_TIME_IN_DECODE: (terminal.first_token_us, terminal.end_us),
    }
    return {
        name: max(0, end_us - start_us) / 1e6
        for name, (start_us, end_us) in moments.items()
        if start_us and end_us
    }


def _event(moment: Moment) -> SpanEvent:
    """At its end, as an event has no duration."""
    attributes: dict[str, Attribute] = {names.STEP_TOKENS: moment.tokens}
    if moment.kind is MomentKind.PREFILL_CHUNK:
        attributes[names.STEPS] = moment.steps
        attributes[names.STEP_SECONDS] = max(0, moment.end_us - moment.start_us) / 1e6
    return SpanEvent(moment.kind.value, moment.end_us, attributes)


def _sampled(trace: TraceContext) -> TraceContext:
    return TraceContext(traceparent=as_sampled(trace.traceparent), tracestate=trace.tracestate)


def _context(trace: TraceContext) -> Context | str:
    if not trace.tracestate:
        return trace.traceparent
    return context_from(trace.traceparent, trace.tracestate)
