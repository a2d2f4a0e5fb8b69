"""A kept beginning of prompts, as its owner sees it."""

from dataclasses import dataclass
from datetime import datetime

from weir.gateway.v1 import prefix_service_pb2 as wire
from weir.gateway.v1.inference_service_pb2 import ChatInput
from weir_client.moments import moment


@dataclass(frozen=True, slots=True)
class Warmth:
    """Where and when a prefix was computed; `tokens` long. A worker may have given it up since."""

    model: str
    worker_id: str
    when: datetime | None
    tokens: int


@dataclass(frozen=True, slots=True)
class Prefix:
    """One version of a prefix.

    Attributes:
        name: give it, or `name@version`, to `generate` as `prefix`.
        version: from 1.
        text: its content, or empty.
        chat: its content if it stands before chats; None otherwise, and in lists.
        models: for whose workers it is computed.
        created: in UTC.
        warmths: where it has been computed.
    """

    name: str
    version: int
    text: str
    chat: ChatInput | None
    models: tuple[str, ...]
    created: datetime | None
    warmths: tuple[Warmth, ...]


def prefix_of(message: wire.Prefix) -> Prefix:
    """The prefix of a message."""
    return Prefix(
        name=message.name,
        version=message.version,
        text=message.text,
        chat=message.chat if message.HasField("chat") else None,
        models=tuple(message.models),
        created=moment(message, "create_time"),
        warmths=tuple(map(warmth_of, message.warmths)),
    )


def warmth_of(message: wire.PrefixWarmth) -> Warmth:
    """The warmth of a message."""
    return Warmth(message.model, message.worker_id, moment(message, "time"), message.prompt_tokens)
