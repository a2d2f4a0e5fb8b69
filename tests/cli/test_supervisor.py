"""The supervisor with small processes in place of services."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from weir_cli.stack.child import Child, ChildSpec, StartFailed
from weir_cli.stack.supervisor import Supervisor

DUMMY = str(Path(__file__).with_name("dummy_service.py"))


@pytest.fixture
def spec(tmp_path: Path) -> Callable[..., ChildSpec]:
    def make(name: str, *behaviour: str, stage: int = 0, drain_s: float = 10.0) -> ChildSpec:
        command = [sys.executable, DUMMY, *(behaviour or ("serves",))]
        return ChildSpec(name, command, tmp_path / f"{name}.log", stage=stage, drain_s=drain_s)

    return make


@asynccontextmanager
async def running(
    *specs: ChildSpec, lines: list[str] | None = None, start_deadline_s: float = 20.0
) -> AsyncIterator[Supervisor]:
    said = [] if lines is None else lines
    supervisor = Supervisor(specs, said.append, start_deadline_s=start_deadline_s)
    try:
        yield supervisor
    finally:
        await supervisor.stop()


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def until(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.02)


async def test_starts_all_and_ends_the_higher_stage_first(spec: Callable[..., ChildSpec]) -> None:
    specs = [spec("low", stage=0), spec("high", stage=2), spec("middle", stage=1)]
    ended: list[str] = []
    waiters: dict[str, asyncio.Future[None]] = {}

    async def note_end(name: str, child: Child) -> None:
        await child.wait()
        ended.append(name)

    async with running(*specs) as supervisor:
        await supervisor.start()
        children = {name: supervisor.child(name) for name in ("low", "middle", "high")}
        for name, child in children.items():
            assert child.ready["grpc"] == "127.0.0.1:1"
            assert int(child.ready["session"]) == child.pid != os.getsid(0)
            waiters[name] = asyncio.ensure_future(note_end(name, child))
    await asyncio.wait_for(asyncio.gather(*waiters.values()), 10)
    assert ended == ["high", "middle", "low"]
    for child_spec in specs:
        assert child_spec.log.read_text().splitlines() == ["drained"]


async def test_a_failure_is_one_line_and_ends_the_others(spec: Callable[..., ChildSpec]) -> None:
    good, bad = spec("good"), spec("bad", "fails", "port 1 is taken; change --address")
    async with running(good, bad) as supervisor:
        with pytest.raises(StartFailed) as caught:
            await supervisor.start()
    message = str(caught.value)
    assert message == (f"bad did not start: port 1 is taken; change --address (log: {bad.log})")
    assert not alive(supervisor.child("good").pid)


async def test_a_crash_shows_its_last_line(spec: Callable[..., ChildSpec]) -> None:
    async with running(spec("bad", "crashes", "no such thing")) as supervisor:
        with pytest.raises(StartFailed, match="RuntimeError: no such thing"):
            await supervisor.start()


async def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    async with running(ChildSpec("bad", ["/no/such/program"], tmp_path / "log")) as supervisor:
        with pytest.raises(StartFailed, match="No such file"):
            await supervisor.start()


async def test_a_start_has_a_deadline(spec: Callable[..., ChildSpec]) -> None:
    never = spec("slow", "never-ready")
    async with running(never, start_deadline_s=0.5) as supervisor:
        with pytest.raises(StartFailed, match="not ready after"):
            await supervisor.start()
    assert not alive(supervisor.child("slow").pid)


async def test_one_that_does_not_end_is_killed(spec: Callable[..., ChildSpec]) -> None:
    lines: list[str] = []
    async with running(spec("rock", "stubborn", drain_s=0.2), lines=lines) as supervisor:
        await supervisor.start()
    assert not alive(supervisor.child("rock").pid)
    assert lines[-1] == "rock did not end within 0.2 s and was killed"


async def test_kill_ends_a_long_drain(spec: Callable[..., ChildSpec]) -> None:
    async with running(spec("rock", "stubborn", drain_s=60)) as supervisor:
        await supervisor.start()
        stopping = asyncio.ensure_future(supervisor.stop())
        await asyncio.sleep(0)
        await supervisor.kill()
        await asyncio.wait_for(stopping, 10)


async def test_a_child_that_dies_is_restarted_and_said(
    spec: Callable[..., ChildSpec], tmp_path: Path
) -> None:
    lines: list[str] = []
    flaky = spec("flaky", "fails-second-time", str(tmp_path / "starts"))
    async with running(flaky, spec("steady"), lines=lines) as supervisor:
        await supervisor.start()
        steady, first = supervisor.child("steady").pid, supervisor.child("flaky").pid
        keeping = asyncio.ensure_future(supervisor.keep_up())
        os.kill(first, signal.SIGKILL)
        await until(lambda: "flaky is back" in lines)
        assert alive(supervisor.child("flaky").pid)
        assert supervisor.child("steady").pid == steady
        keeping.cancel()
        await asyncio.wait({keeping})
    told = [line for line in lines if line.startswith("flaky ")]
    log = flaky.log
    assert told == [
        f"flaky ended (signal 9; log: {log}); restarting in 0.5 s",
        f"flaky did not start: not this time (log: {log}); restarting in 1 s",
        "flaky is back",
    ]


async def test_what_a_child_prints_never_blocks_it(spec: Callable[..., ChildSpec]) -> None:
    chatty = spec("chatty", "chatty")
    async with running(chatty) as supervisor:
        await supervisor.start()
        await until(lambda: b"all printed" in chatty.log.read_bytes()[-100:])
