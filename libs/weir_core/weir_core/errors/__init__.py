from weir_core.errors.exceptions import InvalidField, LimitExceeded, Violation, WeirError
from weir_core.errors.reasons import WIRE_CODES, Reason, WireCode

__all__ = [
    "WIRE_CODES",
    "InvalidField",
    "LimitExceeded",
    "Reason",
    "Violation",
    "WeirError",
    "WireCode",
]
