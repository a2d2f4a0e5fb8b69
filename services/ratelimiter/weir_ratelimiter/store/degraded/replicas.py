"""How many ratelimiters share the limits."""

from typing import Protocol


class Replicas(Protocol):
    """Announces this ratelimiter and counts those that are alive, through the shared store."""

    async def beat(self) -> int:
        """Say that this one lives; return how many do, itself included.

        Raises:
            StoreAway: the shared store does not answer.
        """

    async def close(self) -> None:
        """Sign off if the store answers, and release what was used."""


class ReplicaCount:
    """The number to divide by: as last counted, never less than `least`."""

    def __init__(self, least: int) -> None:
        self._least = least
        self._counted = 1

    def counted(self, replicas: int) -> None:
        """Take note of a count."""
        self._counted = replicas

    @property
    def value(self) -> int:
        """At least 1."""
        return max(1, self._least, self._counted)
