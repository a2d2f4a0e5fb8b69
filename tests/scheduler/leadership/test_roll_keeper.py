"""The roll of connected peers is kept up, whatever a look at its store runs into."""

import asyncio
from typing import cast

from weir_scheduler.leadership.leadership import OnlyScheduler
from weir_scheduler.leadership.roll import Roll
from weir_scheduler.scheduler import Scheduler
from weir_scheduler.server.pump import Pump
from weir_scheduler.server.roll_keeper import RollKeeper
from weir_scheduler.server.streams import Streams


class ShakyLeadership(OnlyScheduler):
    """Its store fails in a way that nobody foresaw, and then works."""

    def __init__(self) -> None:
        self.failures = 2
        self.notes: list[str] = []
        self.noted_once = asyncio.Event()

    async def note(self, text: str) -> bool:
        if self.failures:
            self.failures -= 1
            raise RuntimeError("unforeseen")
        self.notes.append(text)
        self.noted_once.set()
        return True


class OnePeer(Streams):
    """A worker is connected."""

    @property
    def peers(self) -> list[str]:
        return ["w1"]


async def test_a_store_that_fails_ends_no_roll() -> None:
    leadership = ShakyLeadership()
    unused = cast("Scheduler", None), OnePeer(b"secret"), cast("Pump", None)
    keeper = RollKeeper(leadership, *unused, interval_s=0.001)
    keeper.begin()
    try:
        async with asyncio.timeout(10):
            await leadership.noted_once.wait()
    finally:
        keeper.end()
    assert leadership.notes == [Roll.call(["w1"]).text()]
