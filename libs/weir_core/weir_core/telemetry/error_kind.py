"""Which ends of a request count as errors of its trace, and of which kind."""

from enum import StrEnum
from typing import Literal

import grpc

from weir_core.errors.exceptions import LimitExceeded, WeirError
from weir_core.errors.reasons import WIRE_CODES, Reason
from weir_core.telemetry import names

ErrorsKept = Literal["all", "faults", "none"]
"""Kinds of errors whose traces are written although nobody had decided to record them."""

FAULT_CODES = frozenset(
    {
        grpc.StatusCode.UNKNOWN,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.UNIMPLEMENTED,
        grpc.StatusCode.INTERNAL,
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.DATA_LOSS,
    }
)


_NO_ERROR = frozenset(
    {grpc.StatusCode.OK, grpc.StatusCode.CANCELLED, grpc.StatusCode.UNAUTHENTICATED}
)


class ErrorKind(StrEnum):
    """A fault is ours; a refusal answers what the caller asked, or how much of it."""

    FAULT = "fault"
    REFUSAL = "refusal"


def kind_of_code(code: grpc.StatusCode) -> ErrorKind | None:
    """The kind of a status; None where nothing went wrong, the caller left, or is nobody's.

    Calls without a known key could use up the refusals of those that have one.
    """
    if code in _NO_ERROR:
        return None
    return ErrorKind.FAULT if code in FAULT_CODES else ErrorKind.REFUSAL


def kind_of(reason: Reason) -> ErrorKind | None:
    """The kind of a reason; None for a cancel."""
    return kind_of_code(grpc.StatusCode[WIRE_CODES[reason].grpc])


def error_attributes(error: WeirError) -> dict[str, str | list[str]]:
    """What spans tell of an error: its reason, and which limits of which layers refused.

    No numbers: those of other layers are not the reader's own.
    """
    told: dict[str, str | list[str]] = {
        names.REASON: error.reason.value,
        names.ERROR_TYPE: error.reason.value,
    }
    if isinstance(error, LimitExceeded) and error.violations:
        told[names.LIMIT_IDS] = [violation.limit_id for violation in error.violations]
        told[names.LIMIT_LAYERS] = [violation.layer for violation in error.violations]
    return told
