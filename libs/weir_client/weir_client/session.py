"""A session as its owner sees it."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from weir.gateway.v1 import session_service_pb2 as wire
from weir_client.moments import moment


@dataclass(frozen=True, slots=True)
class Session:
    """What keeps the KV of a conversation on a worker between turns.

    Attributes:
        id: give it to `generate` as `session_id`.
        conversation_id: the client's own label, or empty.
        model: name of its model.
        created, last_used: in UTC.
        idle_ttl: it ends after so long without a request.
        tokens: committed so far.
    """

    id: str
    conversation_id: str
    model: str
    created: datetime | None
    last_used: datetime | None
    idle_ttl: timedelta
    tokens: int


def session_of(message: wire.Session) -> Session:
    """The session of a message."""
    return Session(
        id=message.session_id,
        conversation_id=message.conversation_id,
        model=message.model,
        created=moment(message, "create_time"),
        last_used=moment(message, "last_use_time"),
        idle_ttl=message.idle_ttl.ToTimedelta(),
        tokens=message.tokens,
    )
