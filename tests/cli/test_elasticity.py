"""Crews of workers, with small processes in their place and a scheduler that says what it wants."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.cli.test_supervisor import DUMMY, alive, until
from weir_cli.errors import CommandError
from weir_cli.stack import memory
from weir_cli.stack.child import ChildSpec
from weir_cli.stack.crew import Crew
from weir_cli.stack.elasticity import Elasticity
from weir_cli.stack.fleet_look import Look, SeenWorker, Wanted
from weir_cli.stack.served_model import ServedModel
from weir_cli.stack.supervisor import Supervisor
from weir_cli.stack.worker_plan import plan_workers
from weir_cli.stack.worker_range import WorkerRange

MIB = 1024 * 1024


@dataclass
class FakeScheduler:
    """Knows the workers of a supervisor; those that drain leave when they are let."""

    wanted: int = 1
    answers: bool = True
    knows: bool = True
    attempts: dict[str, int] = field(default_factory=dict)
    draining: set[str] = field(default_factory=set)
    drains: list[tuple[str, bool]] = field(default_factory=list)
    supervisor: Supervisor | None = None

    async def look(self) -> Look | None:
        if not self.answers or self.supervisor is None:
            return None
        workers = {}
        for name, pid in self.supervisor.pids.items():
            if pid and self.supervisor.child(name).ready:
                state = "draining" if name in self.draining else "ready"
                workers[f"{name}-id"] = SeenWorker(state, self.attempts.get(name, 0))
        return Look(workers if self.knows else {}, {"m": Wanted(self.wanted, "up, requests")})

    async def drain(self, worker_id: str, *, cancel: bool = False) -> bool:
        if not self.answers:
            return False
        self.drains.append((worker_id, cancel))
        name = worker_id.removesuffix("-id")
        (self.draining.discard if cancel else self.draining.add)(name)
        return True

    def leave(self, name: str) -> None:
        """Its last answer is given: the process ends by itself."""
        assert self.supervisor is not None
        os.kill(self.supervisor.pids[name], signal.SIGTERM)


@dataclass
class Site:
    supervisor: Supervisor
    scheduler: FakeScheduler
    lines: list[str]
    room: list[int | None]

    @property
    def up(self) -> list[str]:
        """Workers that live."""
        return [
            name for name, pid in self.supervisor.pids.items()
            if self.supervisor.child(name).ready and alive(pid)
        ]  # fmt: skip

    def told(self, text: str) -> bool:
        return any(text in line for line in self.lines)


@pytest.fixture
def spec(tmp_path: Path) -> Callable[..., ChildSpec]:
    def make(name: str, *behaviour: str) -> ChildSpec:
        command = [sys.executable, DUMMY, *(behaviour or ("serves",)), f"--worker-id={name}-id"]
        return ChildSpec(name, command, tmp_path / f"{name}.log", drain_s=10.0)

    return make


@asynccontextmanager
async def following(
    *specs: ChildSpec, least: int = 1, need: int | None = None
) -> AsyncIterator[Site]:
    """An elastic stack of these workers, of which the first `least` are there at once."""
    lines: list[str] = []
    supervisor = Supervisor(specs[:least], lines.append, start_deadline_s=20.0)
    scheduler = FakeScheduler(least, supervisor=supervisor)
    site = Site(supervisor, scheduler, lines, [None])
    crew = Crew("m", {one.name: one for one in specs}, supervisor, scheduler, lines.append)
    elasticity = Elasticity(
        [crew], WorkerRange(least, len(specs)), scheduler, lines.append,
        need=lambda _: need, available=lambda: site.room[0], interval_s=0.02,
    )  # fmt: skip
    tasks: list[asyncio.Task[None]] = []
    try:
        await supervisor.start()
        tasks = [asyncio.create_task(work) for work in (supervisor.keep_up(), elasticity.run())]
        yield site
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await supervisor.stop()
        assert not any(alive(pid) for pid in supervisor.pids.values() if pid)


async def test_it_starts_what_is_wanted_and_drains_the_idlest(
    spec: Callable[..., ChildSpec],
) -> None:
    async with following(*(spec(f"w{n}") for n in (1, 2, 3))) as site:
        site.scheduler.wanted = 9
        await until(lambda: site.up == ["w1", "w2", "w3"])
        assert site.told("m: 1 -> 3 workers (up, requests); starting w2, w3")
        site.scheduler.attempts = {"w1": 2, "w2": 1, "w3": 5}
        site.scheduler.wanted = 2
        await until(lambda: site.scheduler.drains == [("w2-id", False)])
        # It has an answer to give: nothing ends it.
        await asyncio.sleep(0.2)
        assert site.up == ["w1", "w2", "w3"]
        site.scheduler.leave("w2")
        await until(lambda: site.up == ["w1", "w3"])
        await until(lambda: site.told("w2 has left"))
        assert not site.told("restarting")
        # The place is free again.
        site.scheduler.draining.clear()
        site.scheduler.wanted = 3
        await until(lambda: set(site.up) == {"w1", "w2", "w3"})


async def test_one_that_drains_is_called_back_before_another_is_started(
    spec: Callable[..., ChildSpec],
) -> None:
    async with following(spec("w1"), spec("w2"), spec("w3")) as site:
        site.scheduler.wanted = 2
        await until(lambda: site.up == ["w1", "w2"])
        pids = dict(site.supervisor.pids)
        site.scheduler.wanted = 1
        await until(lambda: site.scheduler.drains == [("w2-id", False)])
        site.scheduler.wanted = 2
        await until(lambda: site.scheduler.drains[-1] == ("w2-id", True))
        await asyncio.sleep(0.2)
        assert site.supervisor.pids == pids
        # And it is kept up again.
        os.kill(pids["w2"], signal.SIGKILL)
        await until(lambda: site.told("w2 is back"))


async def test_while_the_scheduler_is_away_nothing_changes_and_a_drain_is_said_again(
    spec: Callable[..., ChildSpec],
) -> None:
    async with following(spec("w1"), spec("w2")) as site:
        site.scheduler.wanted = 2
        await until(lambda: site.up == ["w1", "w2"])
        site.scheduler.answers = False
        site.scheduler.wanted = 1
        await asyncio.sleep(0.2)
        assert site.scheduler.drains == []
        site.scheduler.answers = True
        await until(lambda: site.scheduler.drains == [("w2-id", False)])
        # Another scheduler, which was not told.
        site.scheduler.draining.clear()
        await until(lambda: len(site.scheduler.drains) == 2)
        site.scheduler.leave("w2")
        await until(lambda: site.up == ["w1"])


async def test_what_the_scheduler_does_not_know_runs_nothing_and_is_ended(
    spec: Callable[..., ChildSpec],
) -> None:
    async with following(spec("w1"), spec("w2")) as site:
        site.scheduler.wanted = 2
        await until(lambda: site.up == ["w1", "w2"])
        site.scheduler.knows = False
        site.scheduler.wanted = 1
        await until(lambda: site.up == ["w1"])
        assert site.scheduler.drains == []


async def test_a_worker_that_cannot_start_is_not_tried_in_a_loop(
    spec: Callable[..., ChildSpec], tmp_path: Path
) -> None:
    starts = tmp_path / "starts"
    bad = spec("w2", "fails-and-counts", str(starts))
    async with following(spec("w1"), bad) as site:
        site.scheduler.wanted = 2
        await until(lambda: site.told("w2 did not start: never"))
        assert site.told("no other is started for 2 s")
        await asyncio.sleep(0.5)
        assert len(starts.read_text()) == 1
        assert site.up == ["w1"]


async def test_those_that_still_start_have_yet_to_take_their_memory(
    spec: Callable[..., ChildSpec],
) -> None:
    async with following(spec("w1"), spec("w2"), spec("w3"), need=100 * MIB) as site:
        # Enough for one more and what is to stay free, not for two at once.
        site.room[0] = 450 * MIB
        site.scheduler.wanted = 3
        await until(lambda: site.up == ["w1", "w2", "w3"])
        first = next(line for line in site.lines if line.startswith("m: 1 -> "))
        assert first == "m: 1 -> 2 workers (up, requests); starting w2"
        assert site.told(
            "m: no further worker, it would take 100 MiB and 256 MiB are to stay free, of 450 MiB"
        )


async def test_no_room_is_said_once_and_used_when_it_comes(spec: Callable[..., ChildSpec]) -> None:
    async with following(spec("w1"), spec("w2"), need=100 * MIB) as site:
        site.room[0] = 300 * MIB
        site.scheduler.wanted = 2
        await until(lambda: site.told("no further worker"))
        await asyncio.sleep(0.2)
        assert (site.up, sum("no further" in line for line in site.lines)) == (["w1"], 1)
        site.room[0] = 400 * MIB
        await until(lambda: site.up == ["w1", "w2"])


async def test_an_end_in_the_middle_of_a_start_leaves_no_process(
    spec: Callable[..., ChildSpec],
) -> None:
    slow = spec("w2", "never-ready")
    async with following(spec("w1"), slow) as site:
        site.scheduler.wanted = 2
        await until(lambda: site.supervisor.pids.get("w2", 0) > 0)
        pid = site.supervisor.pids["w2"]
    assert not alive(pid)


@pytest.mark.parametrize(
    ("text", "bounds"), [("1", (1, 1)), ("3", (3, 3)), ("1..4", (1, 4)), (" 2..2 ", (2, 2))]
)
def test_a_range_of_workers(text: str, bounds: tuple[int, int]) -> None:
    parsed = WorkerRange.parse(text)
    assert (parsed.least, parsed.most) == bounds


@pytest.mark.parametrize("text", ["", "0", "4..1", "0..3", "1..65", "1...3", "-1", "a..b", "1.."])
def test_what_is_no_range_is_refused(text: str) -> None:
    with pytest.raises(CommandError, match="--workers"):
        WorkerRange.parse(text)


@pytest.mark.parametrize("text", ["1..1000000", "5..2", "0..0"])
def test_the_bounds_of_a_range_are_named(text: str) -> None:
    with pytest.raises(CommandError, match="from 1 to 64, MIN at most MAX"):
        WorkerRange.parse(text)


def test_memory_is_read_where_the_kernel_tells_it() -> None:
    available, used = memory.available_bytes(), memory.used_bytes(os.getpid())
    if sys.platform != "linux":
        pytest.skip("only Linux tells")
    assert available is not None
    assert used is not None
    assert available > 0
    assert used > MIB
    assert memory.used_bytes(2**22 + 1) is None


def test_spare_workers_come_last_and_have_their_part_of_the_cores(tmp_path: Path) -> None:
    models = [ServedModel(name, (), tmp_path, 1_024, "null") for name in ("a", "b")]
    plans = plan_workers(models, WorkerRange(1, 3), cores=12)
    assert [(plan.name, plan.model.name, plan.spare) for plan in plans] == [
        ("worker-1", "a", False),
        ("worker-2", "b", False),
        ("worker-3", "a", True),
        ("worker-4", "a", True),
        ("worker-5", "b", True),
        ("worker-6", "b", True),
    ]
    assert {plan.threads for plan in plans} == {2}
