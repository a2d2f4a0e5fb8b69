"""`weir workers` beside a real scheduler with scripted workers."""

import asyncio
import json
from collections.abc import Callable

import pytest

from tests.scheduler.live import (
    TOKEN,
    LiveScheduler,
    WorkerPeer,
    eventually,
    live_scheduler,
)
from weir.scheduler.v1.scheduler_service_pb2 import DrainWorkerRequest
from weir_cli.commands import workers as command
from weir_cli.errors import CommandError
from weir_cli.output import Output

POOL = {"model": "m", "pool": "default"}


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEIR_CLUSTER_TOKEN", TOKEN.get_secret_value())


async def run(
    live: LiveScheduler, what: Callable[..., None], *words: str, **options: object
) -> None:
    """Runs a command as at the terminal; the scheduler goes on meanwhile."""
    await asyncio.to_thread(what, *words, address=live.app.address, **options)


async def problem(
    live: LiveScheduler, what: Callable[..., None], *words: str, **options: object
) -> str:
    with pytest.raises(CommandError) as caught:
        await run(live, what, *words, **options)
    return str(caught.value)


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """What was printed, without the scheduler's log."""
    return [line for line in capsys.readouterr().out.splitlines() if "[info " not in line]


async def test_workers_and_pools_are_listed_for_people_and_programs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async with live_scheduler() as live:
        worker = await live.worker("w1-abcd")
        await live.worker("w2-abcd")
        gateway = await live.gateway()
        await gateway.enqueue("a")
        dispatched = await gateway.dispatched("a")
        runner = worker if dispatched.worker_id == "w1-abcd" else None
        if runner is not None:
            await runner.run(dispatched)
        await live.stub.DrainWorker(DrainWorkerRequest(worker_id="w2-abcd"))
        await eventually(lambda: live.sample("weir_scheduler_scaling_draining_workers", POOL) == 1)
        lines(capsys)
        await run(live, command.ls)
        rows = {line.split()[0]: line for line in lines(capsys) if line}
        assert "draining" in rows["w2-abcd"]
        assert "told to drain" in rows["w2-abcd"]
        assert " ready " in rows["w1-abcd"]
        assert " default " in rows["w1-abcd"]
        assert rows["WORKER"].split()[:6] == [
            *("WORKER", "MODEL", "VERSION", "PROFILE", "POOL", "STATE"),
        ]
        assert "1..100" in rows["m"]
        await run(live, command.ls, output=Output.JSON)
        shown = json.loads("\n".join(lines(capsys)))
        assert [one["registration"]["worker_id"] for one in shown["workers"]] == [
            "w1-abcd",
            "w2-abcd",
        ]
        assert shown["workers"][1]["state"] == "draining"
        assert shown["pools"][0]["signals"]["workers"] == 1


async def test_no_workers_are_said_to_be_none(capsys: pytest.CaptureFixture[str]) -> None:
    async with live_scheduler() as live:
        await run(live, command.ls)
        assert "no workers" in lines(capsys)


async def test_a_drain_waits_for_the_last_answer(capsys: pytest.CaptureFixture[str]) -> None:
    async with live_scheduler() as live:
        worker = await live.worker("w1-abcd")
        gateway = await live.gateway()
        await gateway.enqueue("a")
        dispatched = await gateway.dispatched("a")
        await worker.run(dispatched, 3)
        waiting = asyncio.create_task(run(live, command.drain, "w1", wait=True, timeout=20.0))
        await worker.told("drain")
        assert not waiting.done()
        worker.draining = True
        await worker.end(dispatched.attempt)
        await gateway.finish(dispatched)
        assert not waiting.done()
        await worker.close()
        await asyncio.wait_for(waiting, 20)
        assert lines(capsys) == ["w1-abcd: draining, 1 running", "w1-abcd: gone"]


async def test_a_wait_has_an_end(capsys: pytest.CaptureFixture[str]) -> None:
    async with live_scheduler() as live:
        worker = await live.worker("w1-abcd")
        gateway = await live.gateway()
        await gateway.enqueue("a")
        await worker.run(await gateway.dispatched("a"), 3)
        told = await problem(live, command.drain, "w1", wait=True, timeout=0.3)
        assert told == "w1-abcd still runs 1 after 0.3 s"
        called_off = asyncio.create_task(
            problem(live, command.drain, "w1", wait=True, timeout=20.0)
        )
        await worker.until(lambda: _drains(worker) == 2 or None)
        await run(live, command.undrain, "w1")
        assert await asyncio.wait_for(called_off, 20) == "w1-abcd does not drain any more"
        assert lines(capsys)[-1] == "w1-abcd: ready"


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("w3", "'w3' is no worker, or has left; running: w1-abcd, w2-abcd"),
        ("w", "'w' is more than one worker: w1-abcd, w2-abcd"),
    ],
)
async def test_which_worker_is_meant(name: str, told: str) -> None:
    async with live_scheduler() as live:
        await live.worker("w1-abcd")
        await live.worker("w2-abcd")
        assert await problem(live, command.drain, name) == told


async def test_nobody_answers() -> None:
    async with live_scheduler() as live:
        await live.app.stop()
        assert live.app.address in await problem(live, command.ls)


def _drains(worker: WorkerPeer) -> int:
    return sum(frame.WhichOneof("command") == "drain" for frame in worker.frames)
