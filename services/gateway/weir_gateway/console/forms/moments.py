"""Times, durations and amounts as the pages get them."""

from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from weir_core.errors.refusal import rfc3339

_NANO = 10**9


def moment(of: Message, name: str) -> str | None:
    """A time of a message as `2026-11-30T20:13:47.123Z`; None when it has none."""
    value = getattr(of, name)
    assert isinstance(value, Timestamp)
    return rfc3339(value.ToMilliseconds()) if of.HasField(name) else None


def duration_s(of: Message, name: str) -> float | None:
    """A duration of a message in seconds; None when it has none."""
    value = getattr(of, name)
    assert isinstance(value, Duration)
    return value.ToMicroseconds() / 1e6 if of.HasField(name) else None


def between_s(of: Message, first: str, last: str) -> float | None:
    """Seconds between two times of a message; None when it lacks one."""
    if not (of.HasField(first) and of.HasField(last)):
        return None
    us: int = getattr(of, last).ToMicroseconds() - getattr(of, first).ToMicroseconds()
    return max(0, us) / 1e6


def amount(nanos: int) -> str:
    """Nano-units of the currency as a decimal, exactly: `0.000123000`."""
    whole, rest = divmod(abs(nanos), _NANO)
    return f"{'-' if nanos < 0 else ''}{whole}.{rest:09d}"


def word(enum: object, value: int, prefix: str) -> str | None:
    """The name of a value without its prefix; None when it is unspecified."""
    name: str = enum.Name(value)  # type: ignore[attr-defined]
    return name.removeprefix(prefix) if value else None
