"""Points in time as Python has them."""

from datetime import UTC, datetime

from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp


def moment(message: Message, field: str) -> datetime | None:
    """The time of a field, in UTC; None if it is not set."""
    if not message.HasField(field):
        return None
    stamp: Timestamp = getattr(message, field)
    return stamp.ToDatetime(UTC)
