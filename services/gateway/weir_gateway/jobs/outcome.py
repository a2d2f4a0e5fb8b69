"""How one attempt at a job came out."""

from dataclasses import dataclass, field

from weir.common.v1.usage_pb2 import Usage
from weir_core.errors import Reason, WeirError
from weir_gateway.jobs.job import JobState


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """The job has ended.

    Attributes:
        state: SUCCEEDED, FAILED, CANCELLED or EXPIRED.
        result: of one that succeeded.
        usage: what ran.
        charge: the serialised SettleRequest that is to be sent once this is written down; empty
            where nothing ran.
        error: why it failed, or why its answer was cut short.
    """

    state: JobState
    result: bytes = b""
    usage: Usage = field(default_factory=Usage)
    charge: bytes = b""
    error: WeirError | None = None


@dataclass(frozen=True, slots=True)
class Again:
    """The job is tried again; what ran of this attempt is not charged.

    Attributes:
        error: why.
        wait_ms: until it may be tried, milliseconds.
        failed: a fault of ours ended it, so that it counts as a failure.
    """

    error: WeirError
    wait_ms: int
    failed: bool


Outcome = End | Again


def cancelled_error() -> WeirError:
    """Why a cancelled job has no result."""
    return WeirError(Reason.CANCELLED, "the job was cancelled")
