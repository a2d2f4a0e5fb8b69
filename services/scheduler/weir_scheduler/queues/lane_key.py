"""Name of a lane."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LaneKey:
    """What a worker must match.

    Attributes:
        model: public name.
        version: empty for any.
        owner: tenant whose dedicated workers serve it; empty for the shared ones.
        pool: name of a further pool of the model; empty for its first one.
    """

    model: str
    version: str
    owner: str
    pool: str = ""
