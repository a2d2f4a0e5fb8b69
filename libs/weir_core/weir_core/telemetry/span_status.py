"""How a span says that it failed."""

from opentelemetry.trace import Span, Status, StatusCode

from weir_core.errors.exceptions import WeirError
from weir_core.telemetry.error_kind import error_attributes


def mark_failed(span: Span, exc: BaseException) -> None:
    """Marks a span as failed with the reason or type of `exc`; its message may hold prompt text."""
    if isinstance(exc, WeirError):
        mark_refused(span, exc)
        return
    span.set_attribute("error.type", type(exc).__name__)
    span.set_status(Status(StatusCode.ERROR, type(exc).__name__))


def mark_refused(span: Span, error: WeirError) -> None:
    """Marks a span as failed with the reason of an error that was told to whoever asked."""
    span.set_attributes(error_attributes(error))
    span.set_status(Status(StatusCode.ERROR, error.reason.value))
