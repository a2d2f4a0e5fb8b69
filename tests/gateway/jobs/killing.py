"""Processes that are killed in the middle of what they do, in this process."""

import asyncio
from collections.abc import Coroutine, Generator
from pathlib import Path
from typing import Any, ClassVar

from sqlalchemy import event

from weir_core.database.url import parse_database_url
from weir_gateway.state.database import StateDatabase


class KilledAt:
    """Awaits a coroutine up to its n-th wait, and never goes on: nothing of it is cleaned up.

    Args:
        work: what is killed.
        number: of the wait, from 1.
    """

    # Whoever is collected cleans up after all.
    _dead: ClassVar[list[object]] = []

    def __init__(self, work: Coroutine[Any, Any, None], number: int) -> None:
        self._work = work
        self._dead.append(work)
        self._number = number
        self.killed = asyncio.Event()

    def __await__(self) -> Generator[Any, Any, None]:
        waits = 0
        while True:
            try:
                waited_for = self._work.send(None)
            except StopIteration:
                return
            waits += 1
            if waits == self._number:
                self.killed.set()
                yield from asyncio.get_running_loop().create_future()
            yield waited_for


class MortalState(StateDatabase):
    """A state database whose connections can be cut, as the death of a process cuts them."""

    def __init__(self, url: str) -> None:
        super().__init__(parse_database_url(url, "state_url", "a test"))
        self._open: list[Any] = []
        event.listen(self._engine.sync_engine, "connect", self._on_connect)

    async def kill(self) -> None:
        for connection in self._open:
            driver = connection.driver_connection
            if hasattr(driver, "terminate"):
                driver.terminate()
            else:
                # A cursor that is still open would keep the lock beyond the end of the connection.
                await driver.rollback()
                await driver.close()

    def _on_connect(self, connection: Any, _: Any) -> None:
        self._open.append(connection)


def sqlite_url(folder: Path) -> str:
    return f"sqlite:///{folder}/state.sqlite"
