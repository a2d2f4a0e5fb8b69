"""Why an attempt is ended before its time."""

from dataclasses import dataclass

from weir.common.v1.lifecycle_pb2 import Outcome
from weir_core.errors import Reason


@dataclass(frozen=True, slots=True)
class AbortCause:
    """What the terminal record of an aborted attempt will say.

    Attributes:
        reason: machine-readable.
        message: one sentence for a person.
    """

    reason: Reason
    message: str


_BY_OUTCOME = {
    Outcome.OUTCOME_CANCELLED: AbortCause(Reason.CANCELLED, "cancelled by the caller"),
    Outcome.OUTCOME_CLIENT_GONE: AbortCause(Reason.CANCELLED, "the client went away"),
    Outcome.OUTCOME_DEADLINE_EXCEEDED: AbortCause(
        Reason.DEADLINE_EXCEEDED, "the deadline passed while it ran"
    ),
    Outcome.OUTCOME_QUOTA_STOPPED: AbortCause(
        Reason.QUOTA_STOPPED, "stopped because an extension of its reservation was refused"
    ),
    Outcome.OUTCOME_EXPIRED: AbortCause(
        Reason.RESERVATION_EXPIRED, "its reservation was settled by the sweep"
    ),
}
_OTHER = AbortCause(Reason.CANCELLED, "aborted by the gateway")

STREAM_ENDED = AbortCause(Reason.CANCELLED, "the stream on which it was started ended")
CALL_CANCELLED = AbortCause(Reason.CANCELLED, "the call was cancelled")
SUPERSEDED = AbortCause(Reason.STALE_ATTEMPT, "a newer attempt of the request was started")
DRAINED = AbortCause(Reason.DRAINING, "the worker is shutting down and its grace is over")


def cause_of(outcome: Outcome.ValueType) -> AbortCause:
    """The cause that stands for an outcome which a caller named."""
    return _BY_OUTCOME.get(outcome, _OTHER)
