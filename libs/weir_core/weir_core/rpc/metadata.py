"""Call metadata between services: names, reading and writing."""

from collections.abc import Iterable

from pydantic import SecretStr

from weir_core.telemetry.context import current_request_id
from weir_core.telemetry.span_context import current_traceparent

AUTHORIZATION = "authorization"
TRACEPARENT = "traceparent"
TRACESTATE = "tracestate"
REQUEST_ID = "x-request-id"

Metadata = Iterable[tuple[str, str | bytes]]


def outgoing_metadata(token: SecretStr | None, given: Metadata) -> list[tuple[str, str | bytes]]:
    """The metadata of an outgoing call; what the caller gave wins over what is added."""
    metadata = list(given)
    present = {key for key, _ in metadata}
    for key, value in _added(token):
        if value and key not in present:
            metadata.append((key, value))
    return metadata


def _added(token: SecretStr | None) -> Iterable[tuple[str, str]]:
    yield TRACEPARENT, current_traceparent()
    yield REQUEST_ID, current_request_id()
    if token is not None:
        yield AUTHORIZATION, f"Bearer {token.get_secret_value()}"


def first_value(metadata: Metadata | None, key: str) -> str:
    """The first text value of `key`, or an empty string."""
    for name, value in metadata or ():
        if name == key and isinstance(value, str):
            return value
    return ""
