"""One of two workers stands still until it is lost: the doctor says that it is gone."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.doctor.clients import Clients, fresh
from tests.doctor.conftest import PROPERTY
from tests.doctor.site import open_site, parameters
from tests.e2e.wait import until


# It has a stack of two workers for itself; the decision is also checked on samples.
@pytest.mark.soak
@pytest.mark.timeout(300)
async def test_the_doctor_sees_that_a_worker_is_gone(tmp_path: Path, record_property: Any) -> None:
    load = [Clients(8, fresh(100))]
    settings = {"WEIR_WORKER__NULL_STEP_US": "50000"}
    async with open_site(tmp_path, None, settings, workers=2) as site:
        await site.change(parameters(max_batch_size=4))
        async with site.phase(load):
            pass
        worker = site.stack.stack.pids["worker-2"]
        os.kill(worker, signal.SIGSTOP)
        try:
            await until(
                site.stack.workers,
                lambda views: (
                    sum(one.state == "ready" for one in views) == 1
                    and all(one.state in ("ready", "lost") for one in views)
                ),
                "lost",
                60,
            )
            async with site.phase(load):
                told = await site.doctor("ttft")
        finally:
            os.kill(worker, signal.SIGCONT)
    causes = [finding["cause"] for finding in told["findings"]]
    said = causes[0] if causes else "nothing"
    record_property(PROPERTY, ("a worker gone", "workers_gone", said))
    assert said == "workers_gone", told
