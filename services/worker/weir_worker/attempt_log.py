"""One log line for each attempt that ended or was refused."""

from weir.common.v1.lifecycle_pb2 import TerminalRecord, TraceContext
from weir.worker.v1.worker_service_pb2 import GenerationSpec
from weir_core.telemetry.logs import get_logger
from weir_worker.engine.events import Terminal
from weir_worker.running_attempt import RunningAttempt
from weir_worker.terminal_record import reason_of

_log = get_logger(__name__)


class AttemptLog:
    """Writes ids, counts and reasons; never text of a request."""

    def attempt_started(self, attempt: RunningAttempt) -> None:
        """See `AttemptObserver`. One line an attempt is enough: the one at its end."""

    def attempt_ended(
        self, attempt: RunningAttempt, terminal: Terminal, record: TerminalRecord
    ) -> None:
        """See `AttemptObserver`."""
        usage = terminal.usage
        failure = terminal.failure
        _log.info(
            "attempt_ended",
            request_id=attempt.key[0],
            attempt=attempt.key[1],
            tenant_id=attempt.tenant,
            trace_id=_trace_id(attempt.trace),
            finish_reason=terminal.finish_reason.value,
            reason=failure.reason.value if failure else "",
            why=failure.message if failure else "",
            prompt_tokens=usage.prompt_tokens,
            cached_prompt_tokens=usage.cached_prompt_tokens,
            completion_tokens=usage.completion_tokens,
            preemptions=terminal.preemptions,
            duration_ms=(terminal.end_us - attempt.received_us) // 1_000,
        )

    def attempt_refused(
        self, spec: GenerationSpec, record: TerminalRecord, *, recorded: bool
    ) -> None:
        """See `AttemptObserver`."""
        _log.warning(
            "start_refused",
            request_id=spec.attempt.request_id[:128],
            attempt=spec.attempt.number,
            tenant_id=spec.tenant_id[:128],
            trace_id=_trace_id(spec.trace),
            reason=reason_of(record),
            why=record.error_message,
        )


def _trace_id(trace: TraceContext) -> str:
    return trace.traceparent[3:35]
