"""What a scheduler tells its peers of the term in which it speaks."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Term:
    """One stretch in which one scheduler was the active one.

    Attributes:
        epoch: higher for each new one; 0 where there is one scheduler only.
        lease_us: silence after which another may be active; 0 likewise.
    """

    epoch: int = 0
    lease_us: int = 0
