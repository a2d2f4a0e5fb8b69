"""`weir up --workers MIN..MAX`: real workers come and go with the load, and no stream is cut."""

from pathlib import Path

import pytest

from tests.cli.running_stack import processes_of
from tests.e2e.counted import COUNTED, PRICED, books_closed
from tests.e2e.deployment import Deployment, deployed
from tests.e2e.streams import Load
from tests.e2e.wait import until

TENANTS = {"acme": {"plan": "counted"}, "globex": {"plan": "counted"}}
# Everything that takes a minute takes a second.
FAST = {
    "WEIR_SCHEDULER__REPORT_INTERVAL_S": "0.2",
    "WEIR_SCHEDULER__WORKER_LOSS_S": "3",
    "WEIR_SCHEDULER__SCALING__INTERVAL_S": "0.2",
    "WEIR_SCHEDULER__SCALING__STABLE_S": "2",
    "WEIR_SCHEDULER__SCALING__PANIC_S": "0.5",
    "WEIR_SCHEDULER__SCALING__UP_PERIOD_S": "0",
    "WEIR_SCHEDULER__SCALING__DOWN_WINDOW_S": "2",
    "WEIR_SCHEDULER__SCALING__DOWN_PERIOD_S": "0.5",
    "WEIR_WORKER__NULL_STEP_US": "40000",
}
# A worker has two places: six clients ask for more than two workers.
FEW = {**PRICED, "parameters": {"max_concurrent_requests": 2}}
CLIENTS, PROMPT, OUTPUT = 6, 30, 40


async def ready(stack: Deployment) -> list[str]:
    return [w.registration.worker_id for w in await stack.workers() if w.state == "ready"]


def workers_of(stack: Deployment) -> list[str]:
    """Names of the worker processes that the supervisor has."""
    return [name for name in stack.stack.pids if name.startswith("worker")]


@pytest.mark.timeout(180)
async def test_it_grows_under_load_and_shrinks_when_idle_and_cuts_no_stream(
    tmp_path: Path,
) -> None:
    async with deployed(
        tmp_path / "state", None, tenants=TENANTS, plans=COUNTED, model=FEW,
        workers=1, most_workers=2, settings=FAST,
    ) as stack:  # fmt: skip
        assert workers_of(stack) == ["worker-1"]
        load = Load(stack, list(TENANTS))
        load.start(CLIENTS, prompt=PROMPT, output=OUTPUT)
        await until(lambda: ready(stack), lambda ids: len(ids) == 2, "two workers", 60)
        # Few enough for one worker: the other must go, whatever it has.
        await load.finish()
        load.start(1, prompt=PROMPT, output=OUTPUT)

        async def left() -> list[str]:
            return workers_of(stack)

        await until(left, lambda names: len(names) == 1, "one worker", 60)
        await load.finish()
        assert [seen.message for seen in load.seen if seen.code] == []
        assert all(seen.record and seen.tokens == OUTPUT for seen in load.seen)
        assert len({seen.request_id for seen in load.seen}) == len(load.seen)
        # Each was answered by the worker that began it.
        assert {seen.record.attempts for seen in load.seen if seen.record} == {1}
        await books_closed(stack, list(TENANTS))
        told = "\n".join(stack.lines)
        assert "null: 1 -> " in told
        assert "draining worker-" in told
        assert "has left" in told
        assert not [line for line in stack.lines if "restarting" in line]
    assert processes_of(str(tmp_path / "state")) == {}
