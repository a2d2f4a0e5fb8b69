"""Reasons to and from their enum on the wire."""

from weir.common.v1.error_reason_pb2 import ErrorReason
from weir_core.errors import Reason

_TO_WIRE = {reason: ErrorReason.Value(f"ERROR_REASON_{reason}") for reason in Reason}
_FROM_WIRE: dict[int, Reason] = {number: reason for reason, number in _TO_WIRE.items()}


def to_wire(reason: Reason) -> "ErrorReason.ValueType":
    """The enum value of a reason."""
    return _TO_WIRE[reason]


def from_wire(number: int, default: Reason = Reason.INTERNAL) -> Reason:
    """The reason of an enum value; `default` for unset and unknown ones."""
    return _FROM_WIRE.get(number, default)
