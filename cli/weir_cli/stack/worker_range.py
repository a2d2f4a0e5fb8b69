"""How many workers of each model: a number, or bounds between which it follows the load."""

import re
from dataclasses import dataclass
from typing import Self

from weir_cli.errors import CommandError

MOST_WORKERS = 64
_FORM = re.compile(r"([0-9]{1,18})(?:\.\.([0-9]{1,18}))?")


@dataclass(frozen=True, slots=True)
class WorkerRange:
    """From `least`, which are started at once, to `most`."""

    least: int = 1
    most: int = 1

    @classmethod
    def parse(cls, text: str) -> Self:
        """`N` or `MIN..MAX`. Raises CommandError."""
        match = _FORM.fullmatch(text.strip())
        if match is None:
            raise CommandError(f"--workers {text}: it must be N or MIN..MAX, such as 2 or 1..4")
        least = int(match[1])
        most = int(match[2] or match[1])
        if not 1 <= least <= most <= MOST_WORKERS:
            raise CommandError(
                f"--workers {text}: it must be from 1 to {MOST_WORKERS}, MIN at most MAX"
            )
        return cls(least, most)

    @property
    def elastic(self) -> bool:
        """Whether the number follows the load."""
        return self.most > self.least
