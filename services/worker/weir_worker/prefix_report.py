"""The prefixes that the cache holds, as the scheduler has been told."""

from weir_worker.engine.events import StepOutput

MOST_HASHES = 4_096
"""Of each kind in one report: 128 KiB."""


class PrefixReport:
    """Net changes since the last report; everything again after a registration.

    Holds one hash for each granule in the cache, so it is bounded by the cache.
    """

    def __init__(self) -> None:
        self._present: dict[bytes, None] = {}
        self._added: dict[bytes, None] = {}
        self._removed: dict[bytes, None] = {}

    def __len__(self) -> int:
        """Prefixes that the cache holds."""
        return len(self._present)

    @property
    def pending(self) -> bool:
        """Whether there is something to tell."""
        return bool(self._added or self._removed)

    def on_output(self, output: StepOutput) -> None:
        """Take the news of a step: what was removed in it, was removed last."""
        for name in output.prefixes_added:
            self._present[name] = None
            if self._removed.pop(name, self) is self:
                self._added[name] = None
        for name in output.prefixes_removed:
            self._present.pop(name, None)
            if self._added.pop(name, self) is self:
                self._removed[name] = None

    def tell_again(self) -> None:
        """Whoever listens has forgotten everything."""
        self._added = dict(self._present)
        self._removed = {}

    def take(self) -> tuple[list[bytes], list[bytes]]:
        """Hashes that were added and removed, `MOST_HASHES` each at most; the oldest first."""
        return _take(self._added), _take(self._removed)


def _take(names: dict[bytes, None]) -> list[bytes]:
    taken = list(names) if len(names) <= MOST_HASHES else list(names)[:MOST_HASHES]
    for name in taken:
        del names[name]
    return taken
