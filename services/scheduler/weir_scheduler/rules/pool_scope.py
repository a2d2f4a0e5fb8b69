"""Which requests and which workers a pool is for."""

from dataclasses import dataclass
from enum import StrEnum

from weir_scheduler.queues.entry import RequestClass


class PromptLength(StrEnum):
    """A prompt as seen by `long_context_threshold`."""

    SHORT = "short"
    LONG = "long"


class WhenGone(StrEnum):
    """What becomes of the requests of a pool while none of its workers is live."""

    REFUSE = "refuse"
    WAIT = "wait"
    SHARED = "shared"


@dataclass(frozen=True, slots=True)
class PoolScope:
    """What a pool takes.

    Attributes:
        tenant_id: the only tenant that it serves; empty for all.
        request_class: the only class; None for both.
        length: the only length of prompts; None for all.
        profiles: profiles of the workers that belong to it; empty for those that no other pool
            of the model claims.
    """

    tenant_id: str = ""
    request_class: RequestClass | None = None
    length: PromptLength | None = None
    profiles: frozenset[str] = frozenset()

    def takes(self, tenant_id: str, request_class: RequestClass, length: PromptLength) -> bool:
        """Whether a request may run here."""
        return (
            self.tenant_id in ("", tenant_id)
            and self.request_class in (None, request_class)
            and self.length in (None, length)
        )

    @property
    def specificity(self) -> int:
        """Higher goes first: a tenant's own before any other, then by what else is bound."""
        return (
            4 * (self.tenant_id != "")
            + (self.request_class is not None)
            + (self.length is not None)
        )
