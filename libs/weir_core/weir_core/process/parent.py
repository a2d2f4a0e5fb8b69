"""A process that ends when its supervisor does, even after kill -9."""

import asyncio
import os
import threading
import time
from collections.abc import Callable


def parent_lives(pid: int) -> bool:
    """Whether `pid` is still the parent of this process."""
    return os.getppid() == pid


class ParentWatch:
    """Calls `on_death` once when the parent process is gone; for event loops.

    Polling, not PR_SET_PDEATHSIG: that fires when the *thread* that forked ends.
    """

    def __init__(self, pid: int, on_death: Callable[[], None], *, interval_s: float = 0.5) -> None:
        self._pid = pid
        self._on_death = on_death
        self._interval_s = interval_s

    async def run(self) -> None:
        """Returns after `on_death` was called; cancel it to stop watching."""
        while parent_lives(self._pid):  # noqa: ASYNC110 - the kernel tells nobody
            await asyncio.sleep(self._interval_s)
        self._on_death()


def exit_with_parent(pid: int, *, interval_s: float = 0.5, code: int = 1) -> threading.Thread:
    """Starts a daemon thread that ends this process at once when `pid` is not its parent.

    For processes without an event loop, such as a spawned engine. Skips all clean-up.
    """

    def watch() -> None:
        while parent_lives(pid):
            time.sleep(interval_s)
        os._exit(code)

    thread = threading.Thread(target=watch, name="parent-watch", daemon=True)
    thread.start()
    return thread
