"""Turns tokens into text as they come, never emitting half a character."""

from collections.abc import Sequence
from typing import Protocol


class Detokenizer(Protocol):
    """The text of one sequence's output.

    All pieces together are the text that decoding the whole output at once would give, after
    the text of the prompt. Special tokens and ids outside the vocabulary have no text.
    """

    def push(self, token_id: int) -> str:
        """Return the text that became certain with this token; may be empty."""
        ...

    def flush(self) -> str:
        """Return what was held back, at the end: U+FFFD for a character cut in the middle."""
        ...


class DetokenizerFactory(Protocol):
    """Makes a detokeniser for each sequence of one model."""

    def open(self, prompt_token_ids: Sequence[int]) -> Detokenizer:
        """Start after a prompt, whose end decides about a leading space, say."""
        ...
