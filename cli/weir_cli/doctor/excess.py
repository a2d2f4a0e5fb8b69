"""By how much something is worse than before, taken apart."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from weir_cli.doctor.finding import Symptom

_TOLD = 3


class Part(StrEnum):
    """Where an excess comes from, as far as counts tell; a cause says why."""

    PROMPTS = "more prompt tokens for each answer"
    HITS = "fewer prompt tokens read from the cache"
    RECOMPUTED = "tokens computed again"
    SMALL_STEPS = "fewer tokens in a step"
    SLOW_STEPS = "longer steps for as many tokens"
    CROWDED = "longer in the worker with equal steps"
    DEMAND = "more requests"
    TENANT_CAP = "waits at a tenant's own cap"
    FULL = "waits for a place in a worker"
    KV = "waits for KV blocks"
    NO_WORKER = "waits for a worker that is there"
    BATCH_WINDOW = "waits for a batch to fill"
    INTAKE = "longer before the queue"


@dataclass(frozen=True, slots=True)
class Excess:
    """A symptom that is there.

    Attributes:
        symptom: which.
        told: it in a sentence, with numbers.
        parts: their sizes, in any one unit; what shrank is left out.
    """

    symptom: Symptom
    told: str
    parts: Mapping[Part, float]

    def share(self, *parts: Part) -> float:
        """Share of the excess that comes from these parts, 0 to 1."""
        whole = sum(self.parts.values())
        return sum(self.parts.get(part, 0.0) for part in parts) / whole if whole > 0 else 0.0

    @property
    def sources(self) -> str:
        """The largest parts with their shares; empty where nothing measured explains it."""
        parts = sorted(self.parts.items(), key=lambda part: -part[1])
        return ", ".join(f"{part} ({self.share(part):.0%})" for part, _ in parts[:_TOLD])


def positive(parts: Mapping[Part, float]) -> dict[Part, float]:
    """What grew."""
    return {part: size for part, size in parts.items() if size > 0}
