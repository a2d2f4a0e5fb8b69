"""Where a request is in its life, and how long it waits there for others."""

from dataclasses import dataclass
from enum import Enum, auto


class State(Enum):
    """Where a request is in its life."""

    RESERVING = auto()
    QUEUED = auto()
    # Handed to a worker, nothing streamed.
    STARTED = auto()
    STREAMING = auto()
    # An abort is under way; the worker's record is awaited.
    STOPPING = auto()
    ENDED = auto()


@dataclass(frozen=True, slots=True)
class LiveBounds:
    """Times that a request waits for others, seconds.

    Attributes:
        abort_s: for the record of an aborted attempt.
        scheduler_s: in the queue of a scheduler that is gone.
    """

    abort_s: float = 5.0
    scheduler_s: float = 10.0
