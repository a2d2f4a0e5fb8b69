"""A part that hangs: the doctor tells it before everything else, and forgets it afterwards."""

import os
import signal

import pytest

from tests.doctor.clients import Clients, fresh
from tests.doctor.site import Site, parameters
from tests.e2e.wait import until

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(240)]


async def test_a_scheduler_that_hangs_is_told(site: Site) -> None:
    await site.change(parameters())
    async with site.phase([Clients(1, fresh(20))]):
        pass
    scheduler = site.stack.stack.pids["scheduler"]
    os.kill(scheduler, signal.SIGSTOP)
    try:
        await until(lambda: _causes(site), lambda told: told[:1] == ["scheduler_away"], "told", 60)
    finally:
        os.kill(scheduler, signal.SIGCONT)
    await until(lambda: _causes(site), lambda told: "scheduler_away" not in told, "forgotten", 60)


async def _causes(site: Site) -> list[str]:
    told = await site.doctor_of("--since", "10s", "--baseline", "10s")
    return [finding["cause"] for finding in told["findings"]]
