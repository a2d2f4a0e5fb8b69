"""Moments and spans of time, told to a person."""

from datetime import UTC, datetime

from google.protobuf.timestamp_pb2 import Timestamp

_MINUTE_S = 60
_HOUR_S = 3_600
_DAY_S = 86_400


def span_text(ms: int) -> str:
    """Such as `55.9 s`, `1 min 59 s`, `20 h 3 min`, `12 d 4 h`; never shorter than it is."""
    if ms < _MINUTE_S * 1_000:
        return f"{ms / 1_000:.1f} s"
    seconds = -(-ms // 1_000)
    if seconds < _HOUR_S:
        return f"{seconds // _MINUTE_S} min {seconds % _MINUTE_S} s"
    minutes = -(-seconds // _MINUTE_S)
    if minutes * _MINUTE_S < 2 * _DAY_S:
        return f"{minutes // 60} h {minutes % 60} min"
    hours = -(-minutes // 60)
    return f"{hours // 24} d {hours % 24} h"


def clock(moment: Timestamp) -> str:
    """The second of a moment, UTC."""
    when = datetime.fromtimestamp(moment.ToMilliseconds() / 1_000, UTC)
    return f"{when:%Y-%m-%d %H:%M:%SZ}"
