"""What an output must match, as sampling sees it."""

from typing import Protocol


class Constraint(Protocol):
    """The state of one output in its grammar."""

    @property
    def problem(self) -> str:
        """Why it can be followed no further; empty while it can."""

    @property
    def complete(self) -> bool:
        """Whether nothing can follow what has been drawn."""

    def allowed(self) -> bytes:
        """One bit for each token of the vocabulary, the lowest first; empty with a problem."""

    def note(self, token_id: int) -> None:
        """Go on to the next token."""
