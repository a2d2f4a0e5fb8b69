"""What a check found."""

from dataclasses import dataclass, field
from enum import StrEnum


class Symptom(StrEnum):
    """What somebody complains of."""

    FAULT = "fault"
    THROUGHPUT = "throughput"
    TTFT = "ttft"
    REFUSALS = "refusals"
    TENANT = "tenant"


@dataclass(frozen=True, slots=True)
class Finding:
    """One cause, how it is known, and what to do.

    Attributes:
        cause: stable name, as in docs/diagnosis.md.
        symptom: that it explains.
        share: part of the symptom that it explains, 0 to 1.
        evidence: sentences with numbers.
        remedy: sentence that names the knob.
        subject: model, worker, tenant or part that it is about; empty for all.
    """

    cause: str
    symptom: Symptom
    share: float
    evidence: tuple[str, ...]
    remedy: str
    subject: str = ""


@dataclass(slots=True)
class Verdict:
    """The outcome of an examination.

    Attributes:
        findings: the weightiest first.
        notes: what could not be judged, and why; what was judged and is well.
    """

    findings: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, other: "Verdict") -> None:
        """Takes another outcome in."""
        self.findings += other.findings
        self.notes += [note for note in other.notes if note not in self.notes]
