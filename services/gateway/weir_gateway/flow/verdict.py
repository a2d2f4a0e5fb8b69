"""What the end of an attempt that nobody stopped means for its request."""

from enum import Enum, auto

from weir.common.v1.lifecycle_pb2 import TerminalRecord
from weir.common.v1.sampling_pb2 import FINISH_REASON_LENGTH, FINISH_REASON_STOP
from weir_core.errors import Reason
from weir_gateway.flow.wire_reason import from_wire

# Another worker would say the same.
_FINAL = frozenset(
    {
        Reason.INVALID_FIELD,
        Reason.UNSUPPORTED_FIELD,
        Reason.CONTEXT_LENGTH_EXCEEDED,
        Reason.REQUEST_TOO_LARGE,
        Reason.DEADLINE_EXCEEDED,
        Reason.MODEL_NOT_FOUND,
    }
)


class Verdict(Enum):
    """What to do next."""

    ANSWERED = auto()
    TRY_AGAIN = auto()
    FAILED = auto()


def judge(record: TerminalRecord, *, streamed: bool) -> Verdict:
    """Answered, to be tried on another worker, or failed for good."""
    if record.finish_reason in (FINISH_REASON_STOP, FINISH_REASON_LENGTH):
        return Verdict.ANSWERED
    if streamed or from_wire(record.error_reason) in _FINAL:
        return Verdict.FAILED
    return Verdict.TRY_AGAIN
