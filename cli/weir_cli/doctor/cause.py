"""The form of a cause, and how shares and rates are told."""

from typing import Protocol

from weir_cli.doctor.evidence import Evidence
from weir_cli.doctor.excess import Excess
from weir_cli.doctor.finding import Finding


class Cause(Protocol):
    """Something that makes answers slower."""

    def check(self, evidence: Evidence, excess: Excess) -> Finding | None:
        """What it explains of an excess, if its own signs are there too."""


def percent(share: float) -> str:
    """As people read it."""
    return f"{100 * share:.0f} %"
