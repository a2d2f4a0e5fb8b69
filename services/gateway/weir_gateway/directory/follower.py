"""What the edge needs of the directory, whoever holds it."""

from collections.abc import Callable
from typing import Protocol

from weir_core.directory import DirectoryIndex


class Directory(Protocol):
    """The current version and news of the next; a watcher, or the publisher itself."""

    @property
    def index(self) -> DirectoryIndex | None:
        """The current version; None before the first."""

    @property
    def required(self) -> DirectoryIndex:
        """The current version.

        Raises:
            WeirError: DIRECTORY_UNAVAILABLE, before the first.
        """

    def on_change(self, callback: Callable[[DirectoryIndex], None]) -> None:
        """Calls back with every new version, and at once with the present one."""
