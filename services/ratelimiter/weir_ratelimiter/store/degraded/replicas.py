"""How many ratelimiters share the limits."""

import contextlib
from pathlib import Path
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
    """The number to divide by: as last counted, never less than `least`.

    It is kept in a file, so that one who starts while nobody can be counted does not take all.

    Args:
        path: of the file; nothing is read from one that is not there or makes no sense.
        least: what is assumed before any was counted, at least 1.
    """

    def __init__(self, path: Path, least: int) -> None:
        self._path = path
        self._least = least
        self._counted = _read(path)

    def counted(self, replicas: int) -> None:
        """Take note of a count."""
        if replicas != self._counted:
            self._counted = replicas
            with contextlib.suppress(OSError):
                self._path.write_text(f"{replicas}\n")

    @property
    def value(self) -> int:
        """At least 1."""
        return max(self._least, self._counted)


def _read(path: Path) -> int:
    try:
        return max(1, int(path.read_text()))
    except (OSError, ValueError):
        return 1
