"""The outcome of sampling one step."""

from dataclasses import dataclass, field


@dataclass(slots=True)
class Samples:
    """Tokens of one step.

    Attributes:
        tokens: one for each row; meaningless where the row failed.
        failures: row -> why it has no token.
    """

    tokens: list[int]
    failures: dict[int, str] = field(default_factory=dict)
