"""How a request ended, as its client, its account and its record need to know it."""

from collections.abc import Sequence
from dataclasses import dataclass

from weir.common.v1.lifecycle_pb2 import Outcome, TerminalRecord
from weir.common.v1.sampling_pb2 import FinishReason
from weir.common.v1.usage_pb2 import Usage, UsageQuality
from weir.scheduler.v1.scheduler_service_pb2 import Rejected
from weir_core.errors import LimitExceeded, Reason, Violation, WeirError
from weir_gateway.flow.account import usage_of
from weir_gateway.flow.request_facts import RequestFacts
from weir_gateway.flow.wire_reason import from_wire

_OK = Outcome.OUTCOME_OK
_COMPLETE = (FinishReason.FINISH_REASON_STOP, FinishReason.FINISH_REASON_LENGTH)


@dataclass(frozen=True, slots=True)
class StopCause:
    """Why a request is being stopped before its own end."""

    outcome: "Outcome.ValueType"
    error: WeirError

    @property
    def leaves_reader(self) -> bool:
        """Whether somebody reads: what an abort comes too late for is charged, so shown."""
        return self.outcome not in (Outcome.OUTCOME_CLIENT_GONE, Outcome.OUTCOME_CANCELLED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """The one end of a request.

    Attributes:
        outcome: for the account and the record.
        finish_reason: for the client.
        usage: what ran.
        quality: how far `usage` may be trusted.
        started: an attempt reached a worker, so that something may have run.
        error: for the client; None when it was answered.
        terminal: the worker's record, if it was received.
    """

    outcome: "Outcome.ValueType"
    finish_reason: "FinishReason.ValueType"
    usage: Usage
    quality: "UsageQuality.ValueType"
    started: bool
    error: WeirError | None = None
    terminal: TerminalRecord | None = None

    def finish_reasons(self, choices: int) -> "list[FinishReason.ValueType]":
        """For the client, of each answer; those that were cut with the rest end as it did."""
        told = list(self.terminal.choices) if self.terminal is not None else []
        if len(told) != choices:
            return [self.finish_reason] * choices
        return [
            end.finish_reason if end.finish_reason in _COMPLETE else self.finish_reason
            for end in told
        ]

    @property
    def cut_by_quota(self) -> bool:
        """Whether a limit ended the answer: its text stands, with `error` saying why."""
        return self.outcome == Outcome.OUTCOME_QUOTA_STOPPED


def conclude(
    facts: RequestFacts,
    terminal: TerminalRecord | None,
    stop: StopCause | None,
    *,
    prompt_tokens: int,
) -> Ending:
    """The end of a request from the record of its newest attempt and why it was stopped."""
    usage, quality = usage_of(facts, terminal, prompt_tokens)
    if terminal is not None and _answered_after_all(terminal, stop):
        stop, reason = None, terminal.finish_reason
    else:
        reason = _finish_reason(stop)
    return Ending(
        outcome=stop.outcome if stop else _OK,
        finish_reason=reason,
        usage=usage,
        quality=quality,
        started=facts.ever_sent,
        error=stop.error if stop else None,
        terminal=terminal,
    )


def broken(error: WeirError) -> Ending:
    """The end of a request whose own code failed; its account is left to the sweep."""
    return Ending(
        outcome=Outcome.OUTCOME_ERROR,
        finish_reason=FinishReason.FINISH_REASON_ERROR,
        usage=Usage(),
        quality=UsageQuality.USAGE_QUALITY_UNKNOWN,
        started=False,
        error=error,
    )


def cause_of(reason: Reason, message: str, field: str | None = None) -> StopCause:
    """The cause that a worker names in its record; `field` as the client calls it."""
    if reason is Reason.DEADLINE_EXCEEDED:
        return StopCause(Outcome.OUTCOME_DEADLINE_EXCEEDED, WeirError(reason, message))
    return failed(reason, message or "the worker failed on this request", field)


def rejected(event: Rejected) -> StopCause:
    """The scheduler will not run it, and says why and when it might."""
    retry_s = None
    if event.HasField("retry_after"):
        retry_s = event.retry_after.ToMilliseconds() / 1_000
    error = WeirError(
        from_wire(event.error_reason, Reason.NO_WORKER),
        event.message,
        retry_after_s=retry_s,
        metadata=dict(event.metadata),
    )
    return StopCause(Outcome.OUTCOME_SHED, error)


def client_gone() -> StopCause:
    """The connection of the client went away."""
    return StopCause(
        Outcome.OUTCOME_CLIENT_GONE,
        WeirError(Reason.CANCELLED, "the client closed the connection"),
    )


def cancelled() -> StopCause:
    """The client cancelled the call."""
    return StopCause(
        Outcome.OUTCOME_CANCELLED, WeirError(Reason.CANCELLED, "the call was cancelled")
    )


def deadline_passed(seconds: float) -> StopCause:
    """The request took longer than it may."""
    return StopCause(
        Outcome.OUTCOME_DEADLINE_EXCEEDED,
        WeirError(
            Reason.DEADLINE_EXCEEDED,
            f"the request took longer than its deadline of {seconds:.1f} s; ask for fewer tokens, "
            "or set a later deadline",
        ),
    )


def no_scheduler(seconds: float) -> StopCause:
    """Nobody has taken over the queue for so long."""
    return StopCause(
        Outcome.OUTCOME_SHED,
        WeirError(
            Reason.SCHEDULER_UNAVAILABLE,
            f"no scheduler could be reached for {seconds:.0f} s",
            retry_after_s=2.0,
        ),
    )


def quota_stopped(message: str, violations: Sequence[Violation]) -> StopCause:
    """An extension was refused while the request ran; `violations` by which limits."""
    error = (
        LimitExceeded(Reason.QUOTA_STOPPED, message, violations, retry_after_s=None)
        if violations
        else WeirError(Reason.QUOTA_STOPPED, message)
    )
    return StopCause(Outcome.OUTCOME_QUOTA_STOPPED, error)


def access_ended(error: WeirError) -> StopCause:
    """The key was revoked or the tenant suspended while the request ran."""
    return StopCause(Outcome.OUTCOME_CANCELLED, error)


def too_slow(characters: int) -> StopCause:
    """The client reads more slowly than the model writes, by far."""
    return StopCause(
        Outcome.OUTCOME_CLIENT_GONE,
        WeirError(
            Reason.CANCELLED,
            f"the client left {characters} characters of the answer unread; read faster, or "
            "do not stream",
        ),
    )


def failed(reason: Reason, message: str, field: str | None = None) -> StopCause:
    """A fault of ours, or of `field`."""
    return StopCause(Outcome.OUTCOME_ERROR, WeirError(reason, message, field=field))


def _answered_after_all(terminal: TerminalRecord, stop: StopCause | None) -> bool:
    """The answer was complete before the stop took effect, and somebody reads it."""
    if terminal.finish_reason not in _COMPLETE:
        return False
    return stop is None or stop.outcome in (
        Outcome.OUTCOME_QUOTA_STOPPED,
        Outcome.OUTCOME_DEADLINE_EXCEEDED,
    )


def _finish_reason(stop: StopCause | None) -> "FinishReason.ValueType":
    if stop is None or stop.outcome == Outcome.OUTCOME_ERROR:
        return FinishReason.FINISH_REASON_ERROR
    if stop.outcome == Outcome.OUTCOME_SHED:
        return FinishReason.FINISH_REASON_REJECTED
    if stop.outcome == Outcome.OUTCOME_QUOTA_STOPPED:
        return FinishReason.FINISH_REASON_LENGTH
    return FinishReason.FINISH_REASON_ABORT
