"""What placing a request came to."""

from dataclasses import dataclass

from weir_scheduler.placement.candidate import Candidate
from weir_scheduler.queues.wait_reason import WaitReason


@dataclass(frozen=True, slots=True)
class Placed:
    """It goes to this worker."""

    candidate: Candidate


@dataclass(frozen=True, slots=True)
class Blocked:
    """It must wait, and those behind it too."""

    reason: WaitReason


@dataclass(frozen=True, slots=True)
class AwaitsSession:
    """It waits a little for the full worker of its session; those behind it go on."""

    worker_id: str
    until_us: int


@dataclass(frozen=True, slots=True)
class Stranded:
    """No worker that takes work may have it, though others may be served; those go on."""


@dataclass(frozen=True, slots=True)
class TooLarge:
    """It fits no worker, however long it waits."""

    message: str


Placement = Placed | Blocked | AwaitsSession | Stranded | TooLarge
