"""Whom the active scheduler serves, noted beside its lease for the one that takes over."""

import json
from collections.abc import Iterable
from dataclasses import dataclass

MOST_NAMES = 5_000


@dataclass(frozen=True, slots=True)
class Roll:
    """Names of connected gateways and workers; a hint, and never needed.

    Attributes:
        peers: at most `MOST_NAMES`; of more none is kept, as if nothing were known.
    """

    peers: frozenset[str] = frozenset()

    @classmethod
    def of(cls, text: str) -> "Roll | None":
        """As it was noted; None where nothing is, or nothing that is one."""
        try:
            names = json.loads(text)
        except ValueError:
            return None
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            return None
        return cls(frozenset(names))

    @classmethod
    def call(cls, peers: Iterable[str]) -> "Roll":
        """Of these peers."""
        names = frozenset(peers)
        return cls(names if len(names) <= MOST_NAMES else frozenset())

    def text(self) -> str:
        """To be noted; empty when nothing is known."""
        return json.dumps(sorted(self.peers)) if self.peers else ""
