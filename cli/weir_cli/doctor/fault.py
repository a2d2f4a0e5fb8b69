"""The form of a fault."""

from collections.abc import Iterable
from typing import Protocol

from weir_cli.doctor.evidence import Evidence
from weir_cli.doctor.finding import Finding, Symptom


class Fault(Protocol):
    """Something that does not work."""

    def check(self, evidence: Evidence) -> Iterable[Finding]:
        """What of it is there now."""


def fault(cause: str, subject: str, evidence: Iterable[str], remedy: str) -> Finding:
    """One that is there: it explains everything that follows from it."""
    told = tuple(part for part in evidence if part)
    return Finding(cause, Symptom.FAULT, 1.0, told, remedy, subject)
