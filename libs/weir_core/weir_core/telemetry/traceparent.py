"""W3C `traceparent` as text: requests carry it in frames, and most of it is only passed on."""

import re

TRACEPARENT = re.compile("00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")
SAMPLED = 0x01
_LENGTH = 55


def as_sampled(traceparent: str) -> str:
    """The same, asking for recording: where `Tracing.keeps` said so."""
    parts = TRACEPARENT.fullmatch(traceparent)
    if parts is None:
        return traceparent
    return f"{traceparent[:-2]}{int(parts[3], 16) | SAMPLED:02x}"


def is_sampled(traceparent: str) -> bool:
    """Whether it asks for recording."""
    parts = TRACEPARENT.fullmatch(traceparent)
    return parts is not None and bool(int(parts[3], 16) & SAMPLED)


def child_of(traceparent: str, number: int) -> str:
    """That of a span which is the `number`th of its kind below another.

    Whoever knows the parent knows it, so that it need not be kept until the span is written.

    Args:
        traceparent: of the parent, as this process made it.
        number: 1 or more.
    """
    if len(traceparent) != _LENGTH:
        return traceparent
    return f"{traceparent[:36]}{int(traceparent[36:52], 16) ^ number:016x}{traceparent[52:]}"
