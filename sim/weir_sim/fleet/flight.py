"""Steps that are under way."""

from dataclasses import dataclass

from weir_sim.fleet.sequence import SimSequence


@dataclass(slots=True)
class Flight:
    """Steps that are under way: one, or several decode steps between which nothing changes.

    Attributes:
        begin_us: of the first.
        ends: end of each, microseconds.
        chunks: prompt tokens computed in it; such a flight is one step.
        decodes: whether every decoding sequence advances by one token a step.
        done: steps whose effect has been taken over.
    """

    begin_us: int
    ends: list[int]
    chunks: list[tuple[SimSequence, int]]
    decodes: bool
    done: int = 0
