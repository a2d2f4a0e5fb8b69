"""A gateway in a thread of its own, so that a test that blocks can call it, and what it leaves."""

import asyncio
import os
import threading
from collections import Counter
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from tests.authorisation.cluster import Channels, running_cluster
from tests.authorisation.site import ADMIN_SECRET
from tests.gateway.harness import Gateway, eventually, running_gateway

T = TypeVar("T")

_START_S = 60.0
_REST_S = 60.0
_FIRST_USED = 12


class FuzzSite:
    """The gateway and its loop."""

    def __init__(
        self, gateway: Gateway, channels: Channels, loop: asyncio.AbstractEventLoop
    ) -> None:
        self.gateway = gateway
        self.channels = channels
        self._loop = loop
        self._tasks: Counter[str] = Counter()
        self._files = 0

    def run(self, work: Coroutine[Any, Any, T], timeout_s: float = _REST_S) -> T:
        """Runs a coroutine in the gateway's loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout_s)

    def begin(self) -> None:
        """Notes what is there before."""
        self._tasks, self._files = self.run(self._tasks_now()), _open_files()

    def check_nothing_is_left(self) -> None:
        """Nothing runs, every account was closed once, and tasks and files are as before."""
        self.run(self.gateway.at_rest())
        self.run(self._settled())

    async def _settled(self) -> None:
        try:
            await eventually(self._is_as_before, timeout_s=_REST_S / 2)
        except AssertionError:
            more = {name: n - self._tasks[name] for name, n in self._counted().items()}
            left = {name: n for name, n in more.items() if n > 0}
            raise AssertionError(
                f"left: tasks {left}, files {_open_files() - self._files}"
            ) from None

    def _is_as_before(self) -> bool:
        # A few connections are opened at their first use, and stay.
        new = self._counted() - self._tasks
        return new.total() <= _FIRST_USED and _open_files() <= self._files + _FIRST_USED

    def _counted(self) -> Counter[str]:
        return Counter(_name_of(task) for task in asyncio.all_tasks(self._loop))

    async def _tasks_now(self) -> Counter[str]:
        return self._counted()


@contextmanager
def fuzz_site(folder: Path) -> Iterator[FuzzSite]:
    """All services; the gateway with a state database and administration."""
    found: list[FuzzSite] = []
    ready, over = threading.Event(), threading.Event()
    failed: list[BaseException] = []

    async def live() -> None:
        settings: dict[str, Any] = {
            "database_url": f"sqlite:///{folder}/directory.sqlite",
            "admin_secret": ADMIN_SECRET,
            "max_body_bytes": 1_000_000,
            # Streams that are closed for want of use would be opened again while one looks.
            "worker_idle_s": 3_600.0,
        }
        async with running_gateway(folder, workers=2, **settings) as gateway:
            await asyncio.gather(*(gateway.chat() for _ in range(8)))
            async with running_cluster(folder, gateway.app.grpc_address) as channels:
                found.append(FuzzSite(gateway, channels, asyncio.get_running_loop()))
                ready.set()
                while not over.is_set():
                    await asyncio.sleep(0.05)

    def serve() -> None:
        try:
            asyncio.run(live())
        except BaseException as error:
            failed.append(error)
        finally:
            ready.set()

    thread = threading.Thread(target=serve, name="fuzzed-gateway", daemon=True)
    thread.start()
    assert ready.wait(_START_S)
    if failed:
        raise failed[0]
    try:
        yield found[0]
    finally:
        over.set()
        thread.join(_START_S)
    if failed:
        raise failed[0]


def _name_of(task: asyncio.Task[Any]) -> str:
    return getattr(task.get_coro(), "__qualname__", "?")


def _open_files() -> int:
    return len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
