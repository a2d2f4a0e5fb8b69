"""Workers that come with the load, and are drained, terminated or frozen in mid-stream.

All of one `weir up --workers 1..2`, which grows for the first of these tests and shrinks in the
last.
"""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest
import pytest_asyncio
import yaml

from tests.cli.running_stack import processes_of
from tests.e2e.counted import COUNTED, PRICED, books_closed
from tests.e2e.deployment import Deployment, deployed
from tests.e2e.streams import Load, Seen, stream
from tests.e2e.told_once import at_rest, told_once
from tests.e2e.wait import until
from weir.scheduler.v1.scheduler_service_pb2 import WorkerView
from weir_cli.commands import workers as command

pytestmark = [pytest.mark.timeout(180), pytest.mark.asyncio(loop_scope="module")]

TENANTS = {"acme": {"plan": "counted"}, "globex": {"plan": "counted"}}
# Of these, the worker keeps 1.5 s for aborting.
DRAIN_S = 3.0
SETTINGS = {
    "WEIR_WORKER__NULL_STEP_US": "20000",
    "WEIR_WORKER__DRAIN_S": f"{DRAIN_S:g}",
    "WEIR_SCHEDULER__REPORT_INTERVAL_S": "0.2",
    "WEIR_SCHEDULER__WORKER_LOSS_S": "3",
    "WEIR_SCHEDULER__STEP_SUSPECT_S": "1",
    "WEIR_SCHEDULER__STEP_LOSS_S": "2",
    "WEIR_WORKER__ENGINE_TIMEOUT_S": "60",
    # Everything that takes a minute takes a second, but to shrink.
    "WEIR_SCHEDULER__SCALING__INTERVAL_S": "0.2",
    "WEIR_SCHEDULER__SCALING__STABLE_S": "2",
    "WEIR_SCHEDULER__SCALING__PANIC_S": "0.5",
    "WEIR_SCHEDULER__SCALING__UP_PERIOD_S": "0",
    "WEIR_SCHEDULER__SCALING__DOWN_WINDOW_S": "600",
    "WEIR_SCHEDULER__SCALING__DOWN_PERIOD_S": "0.5",
}
# A worker has four places: six clients ask for more than one worker.
FEW = {**PRICED, "parameters": {"max_concurrent_requests": 4}}
CLIENTS, PROMPT, OUTPUT = 6, 30, 60


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stack(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Deployment]:
    """Two workers of the model that computes nothing, in slow steps; the load brought one."""
    state = tmp_path_factory.mktemp("leaving") / "state"
    async with deployed(
        state, None, tenants=TENANTS, plans=COUNTED, model=FEW,
        workers=1, most_workers=2, settings=SETTINGS,
    ) as running:  # fmt: skip
        assert workers_of(running) == ["worker-1"]
        load = Load(running, list(TENANTS))
        load.start(CLIENTS, prompt=PROMPT, output=OUTPUT)
        await both_ready(running)
        await load.finish()
        assert [seen.message for seen in load.seen if seen.code] == []
        told_once(load.seen)
        assert "null: 1 -> 2 workers (" in "".join(running.lines)
        yield running
    assert processes_of(str(state)) == {}


def workers_of(stack: Deployment) -> list[str]:
    """Names of the worker processes that the supervisor has."""
    return [name for name in stack.stack.pids if name.startswith("worker")]


async def view_of(stack: Deployment, name: str) -> WorkerView:
    """The worker of that process as it runs now."""
    worker_id = stack.stack.worker_id(name)
    views = [view for view in await stack.workers() if view.registration.worker_id == worker_id]
    return views[0] if views else WorkerView()


async def both_ready(stack: Deployment) -> None:
    async def ready() -> list[str]:
        return [view.state for view in await stack.workers() if view.state == "ready"]

    await until(ready, lambda states: len(states) == 2, "both workers", 60)


async def busy(stack: Deployment, name: str) -> WorkerView:
    """Waits until a worker runs something."""
    return await until(
        lambda: view_of(stack, name), lambda view: view.running_attempts > 0, f"work on {name}"
    )


async def test_case_16_19_20_a_drain_under_load_cuts_no_stream_however_long_it_takes(
    stack: Deployment, capsys: pytest.CaptureFixture[str]
) -> None:
    await both_ready(stack)
    load = Load(stack, list(TENANTS))
    load.start(CLIENTS, prompt=PROMPT, output=OUTPUT)
    worker_id = (await busy(stack, "worker-1")).registration.worker_id
    began = len(load.seen)
    # As at the terminal: it returns once the worker has left.
    drain = asyncio.create_task(
        asyncio.to_thread(command.drain, "worker-1", wait=True, state_dir=stack.state)
    )
    await until(
        lambda: view_of(stack, "worker-1"), lambda view: view.state == "draining", "the drain"
    )
    await asyncio.wait_for(drain, 60)
    printed = capsys.readouterr().out
    assert f"{worker_id}: draining, " in printed
    assert f"{worker_id}: gone" in printed
    await load.finish()
    assert len(load.seen) > began
    assert [seen.message for seen in load.seen if seen.code] == []
    told_once(load.seen)
    assert all(seen.tokens == OUTPUT for seen in load.seen)
    # Nothing that was begun after it stopped accepting ran there, and nothing ran twice.
    late = [seen.record for seen in load.seen[began + CLIENTS :] if seen.record]
    assert worker_id not in {record.worker_id for record in late}
    await both_ready(stack)
    await at_rest(stack)
    await books_closed(stack, list(TENANTS))


async def test_a_drain_that_is_called_off_goes_on_as_if_nothing_had_been(
    stack: Deployment, capsys: pytest.CaptureFixture[str]
) -> None:
    await both_ready(stack)
    pid = stack.stack.pids["worker-2"]
    seen = [Seen("acme") for _ in range(4)]
    streams = [
        asyncio.create_task(stream(stack, one, [1] * PROMPT, OUTPUT)) for one in seen
    ]  # fmt: skip
    await busy(stack, "worker-2")
    await asyncio.to_thread(command.drain, "worker-2", state_dir=stack.state)
    await asyncio.to_thread(command.undrain, "worker-2", state_dir=stack.state)
    assert capsys.readouterr().out.splitlines()[-1].endswith(": ready")
    await asyncio.gather(*streams)
    assert all(one.tokens == OUTPUT for one in seen)
    assert (await view_of(stack, "worker-2")).state == "ready"
    assert stack.stack.pids["worker-2"] == pid


async def test_sigterm_drains_to_its_deadline_then_aborts_with_a_reason_and_settles(
    stack: Deployment,
) -> None:
    await both_ready(stack)
    # Six seconds: beyond the time that is left to those on the worker that goes.
    begun = [Seen("acme") for _ in range(4)]
    streams = [asyncio.create_task(stream(stack, one, [1] * PROMPT, 300)) for one in begun]
    await busy(stack, "worker-1")
    await until(lambda: _running(begun), lambda count: count == 4, "four streams")
    before = {id(one): one.tokens for one in begun}
    os.kill(stack.stack.pids["worker-1"], signal.SIGTERM)
    await asyncio.gather(*streams)
    cut = [one for one in begun if one.code is not None]
    assert 0 < len(cut) < 4
    for one in cut:
        assert one.code is grpc.StatusCode.UNAVAILABLE
        assert "the worker is shutting down and its grace is over" in one.message
        # It went on until its time was over: 1.5 s are 75 steps.
        assert one.tokens >= before[id(one)] + 20
    assert all(one.tokens == 300 for one in begun if one not in cut)
    told_once(begun)
    rows = await books_closed(stack, list(TENANTS))
    charged = {row.request_id: row for row in rows}
    assert all(charged[one.request_id].completion == len(one.ids) for one in cut)


async def test_a_frozen_engine_is_lost_by_the_age_of_its_steps_although_its_worker_answers(
    stack: Deployment,
) -> None:
    await both_ready(stack)
    await at_rest(stack)
    server = stack.stack.pids["worker-1"]
    (engine,) = [
        pid for pid, line in processes_of(str(stack.state)).items()
        if _parent(pid) == server and "resource_tracker" not in line
    ]  # fmt: skip
    begun = [Seen("acme") for _ in range(4)]
    streams = [asyncio.create_task(stream(stack, one, [1] * PROMPT, 200)) for one in begun]
    await busy(stack, "worker-1")
    await until(lambda: _running(begun), lambda count: count == 4, "four streams")
    os.kill(engine, signal.SIGSTOP)
    try:
        suspect = await until(
            lambda: view_of(stack, "worker-1"), lambda view: view.state == "suspect", "suspicion"
        )
        assert "has made no step for" in suspect.state_reason
        fresh = [Seen("globex") for _ in range(4)]
        await asyncio.gather(*(stream(stack, one, [3] * PROMPT, 4) for one in fresh))
        assert all(one.record is not None for one in fresh)
        lost = await until(
            lambda: view_of(stack, "worker-1"), lambda view: view.state == "lost", "the loss"
        )
        assert "has made no step for" in lost.state_reason
    finally:
        os.kill(engine, signal.SIGCONT)
    await asyncio.gather(*streams)
    # Those on the other worker went on; those here ended with the reason.
    assert {one.code for one in begun} == {None, grpc.StatusCode.UNAVAILABLE}
    told_once([*begun, *fresh])
    await both_ready(stack)
    await at_rest(stack)
    await books_closed(stack, list(TENANTS))


async def test_an_idle_stack_drains_to_its_least_without_cutting_what_still_runs(
    stack: Deployment,
) -> None:
    await both_ready(stack)
    load = Load(stack, list(TENANTS))
    # Few enough for one worker; and wherever the one stream is when the other has to go.
    load.start(1, prompt=PROMPT, output=OUTPUT)
    file = stack.state.parent / f"{stack.state.name}-directory.yaml"
    document = yaml.safe_load(file.read_text())
    document["pools"] = [{"name": "default", "scaling": {"down_window_ms": 1_000}}]
    file.write_text(yaml.safe_dump(document))

    async def left() -> list[str]:
        return workers_of(stack)

    await until(left, lambda names: len(names) == 1, "one worker", 90)
    await load.finish()
    assert [seen.message for seen in load.seen if seen.code] == []
    told_once(load.seen)
    assert {seen.record.attempts for seen in load.seen if seen.record} == {1}
    told = "".join(stack.lines)
    assert "null: 2 -> 1 workers (" in told
    assert "has left" in told
    await at_rest(stack)
    await books_closed(stack, list(TENANTS))


async def _running(seen: list[Seen]) -> int:
    return sum(one.running for one in seen)


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
