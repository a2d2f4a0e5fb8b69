"""Prompts that begin alike: system prompts of families, and turns of conversations."""

from collections import deque
from dataclasses import dataclass

import numpy as np

_OPEN_SESSIONS = 256


@dataclass(frozen=True, slots=True)
class PrefixModel:
    """How much of a prompt was there before.

    Attributes:
        granularity: tokens of a piece that has an id.
        continues: probability that a request is the next turn of a conversation, if there is
            one that is shorter.
        families: system prompts; each conversation begins with one, drawn by Zipf's law.
        family_pieces: length of a system prompt, pieces; 0 for none.
    """

    granularity: int
    continues: float
    families: int = 1
    family_pieces: int = 0


@dataclass(slots=True)
class _Session:
    name: str
    pieces: list[int]


class PrefixIds:
    """Gives each prompt its chained ids, in order of arrival.

    A prompt of given length continues the longest open conversation that is not longer, so that
    lengths keep their distribution and conversations grow.
    """

    def __init__(self, model: PrefixModel, rng: np.random.Generator) -> None:
        self._model = model
        self._rng = rng
        self._next = model.families * model.family_pieces
        self._open: deque[_Session] = deque(maxlen=_OPEN_SESSIONS)
        self._names = 0

    def of(self, prompt_tokens: int) -> tuple[str, tuple[int, ...]]:
        """Name of the conversation and ids of the full pieces of its next prompt."""
        wanted = prompt_tokens // self._model.granularity
        session = self._continued(wanted) or self._begun()
        pieces = session.pieces
        while len(pieces) < wanted:
            pieces.append(self._next)
            self._next += 1
        return session.name, tuple(pieces[:wanted])

    def _continued(self, wanted: int) -> _Session | None:
        if self._rng.uniform() >= self._model.continues:
            return None
        shorter = (session for session in self._open if len(session.pieces) <= wanted)
        return max(shorter, key=lambda session: len(session.pieces), default=None)

    def _begun(self) -> _Session:
        family = min(int(self._rng.zipf(1.5)), self._model.families) - 1
        first = family * self._model.family_pieces
        pieces = list(range(first, first + self._model.family_pieces))
        session = _Session(f"s{self._names}", pieces)
        self._names += 1
        self._open.append(session)
        return session
