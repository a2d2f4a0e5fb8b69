"""The engine in a thread and in a process of its own, as the server process sees it."""

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import pytest

from tests.homes import new_home
from tests.tiny_llama import write_tiny_llama
from tests.worker.engine.driver import submission
from weir_core.clock import SystemClock
from weir_core.errors import InvalidField, Reason, WeirError
from weir_core.errors.startup import StartupError
from weir_worker.engine.client import EngineClient
from weir_worker.engine.config import EngineConfig
from weir_worker.engine.events import Delta, FinishReason, Prefilled, StepOutput, Terminal
from weir_worker.engine.factory import build_engine
from weir_worker.engine.launchers import EngineLauncher, ProcessLauncher, ThreadLauncher
from weir_worker.engine.null_model import NullRunner
from weir_worker.engine.ticket import EngineEvent
from weir_worker.models.base import ForwardBatch
from weir_worker.sampling import Samples, SamplingState

START_S = 60.0
LETTERS = "abcdefghijklmnopqrstuvwxyz "


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKENWEIR_HOME", str(new_home(tmp_path / "home")))


def config_of(**fields: object) -> EngineConfig:
    values: dict[str, object] = {"model": "null", "num_blocks": 500, "max_running": 32, **fields}
    return EngineConfig(**values)  # type: ignore[arg-type]


def launcher_of(kind: str, **fields: object) -> EngineLauncher:
    config = config_of(**fields)
    if kind == "process":
        return ProcessLauncher(config)
    return ThreadLauncher(lambda: build_engine(config))


@pytest.fixture
async def opened() -> AsyncIterator[Callable[..., EngineClient]]:
    clients: list[EngineClient] = []

    def open_client(launcher: EngineLauncher, **settings: object) -> EngineClient:
        clients.append(EngineClient(launcher, SystemClock(), **settings))  # type: ignore[arg-type]
        return clients[-1]

    yield open_client
    for client in clients:
        await client.stop(5.0)


async def eventually(condition: Callable[[], bool], timeout_s: float = 20.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "it never came true"
        await asyncio.sleep(0.005)


async def collect(client: EngineClient, request_id: str, length: int) -> list[EngineEvent]:
    return [event async for event in client.stream(submission(request_id, [97] * 5, length))]


@pytest.mark.parametrize("kind", ["thread", "process"])
async def test_streams_end_in_one_terminal(kind: str, opened: Callable[..., EngineClient]) -> None:
    client = opened(launcher_of(kind))
    ready = await client.start(START_S)
    assert (ready.model, ready.num_blocks, ready.vocab_size) == ("null", 500, 259)
    assert (ready.pid == os.getpid()) == (kind == "thread")
    answers = await asyncio.wait_for(
        asyncio.gather(*(collect(client, f"r{i}", 5 + i) for i in range(20))), 20
    )
    for index, events in enumerate(answers):
        assert isinstance(events[0], Prefilled)
        deltas = [event for event in events if isinstance(event, Delta)]
        assert "".join(delta.text for delta in deltas) == LETTERS[: 5 + index]
        terminal = events[-1]
        assert isinstance(terminal, Terminal)
        assert terminal.finish_reason is FinishReason.LENGTH
        assert terminal.usage.completion_tokens == 5 + index
    assert client.load.held_blocks == 0
    assert client.health.in_flight == 0


@pytest.mark.parametrize("kind", ["thread", "process"])
async def test_closing_a_stream_early_aborts_it(
    kind: str, opened: Callable[..., EngineClient]
) -> None:
    client = opened(launcher_of(kind, null_step_us=1000))
    await client.start(START_S)
    stream = client.stream(submission("r", [97], 7000))
    async for event in stream:
        if isinstance(event, Delta):
            break
    await stream.aclose()  # type: ignore[attr-defined]
    await eventually(lambda: client.health.in_flight == 0)
    assert client.load.held_blocks == 0
    assert client.load.counters.aborted == 1


async def test_abort_while_idle_frees_and_reports_at_once(
    opened: Callable[..., EngineClient],
) -> None:
    events: list[EngineEvent] = []
    outputs: list[StepOutput] = []
    client = opened(launcher_of("thread", null_step_us=2000), on_output=outputs.append)
    await client.start(START_S)
    client.submit(submission("r", [97] * 100, 5000), events.append)
    await eventually(lambda: any(isinstance(event, Delta) for event in events))
    asked = time.monotonic()
    client.abort("r", 1, Reason.QUOTA_STOPPED, "over budget")
    await eventually(lambda: isinstance(events[-1], Terminal))
    # All of its tokens would take ten seconds.
    assert time.monotonic() - asked < 5
    terminal = events[-1]
    assert isinstance(terminal, Terminal)
    assert terminal.failure is not None
    assert terminal.failure.reason is Reason.QUOTA_STOPPED
    sampled = sum(len(event.token_ids) for event in events if isinstance(event, Delta))
    assert terminal.usage.completion_tokens == sampled
    final = next(output for output in outputs if output.terminals)
    assert (final.load.running, final.load.held_blocks) == (0, 0)


async def test_idle_engine_keeps_a_pulse(opened: Callable[..., EngineClient]) -> None:
    outputs: list[StepOutput] = []
    client = opened(launcher_of("thread"), on_output=outputs.append)
    await client.start(START_S)
    await eventually(lambda: len(outputs) >= 3)
    assert client.health.alive
    assert client.health.age_s < 2.0


async def test_killed_engine_ends_every_request_at_once(
    opened: Callable[..., EngineClient],
) -> None:
    """Case 17: requests hung and health stayed 200 after the engine was killed."""
    lost: list[str] = []
    client = opened(launcher_of("process", null_step_us=2000), on_lost=lost.append)
    ready = await client.start(START_S)
    events: dict[str, list[EngineEvent]] = {f"r{i}": [] for i in range(40)}
    for request_id, heard in events.items():
        client.submit(submission(request_id, [97] * 20, 200), heard.append)
    await eventually(lambda: sum(len(heard) > 5 for heard in events.values()) >= 32)
    os.kill(ready.pid, signal.SIGKILL)
    await eventually(lambda: client.health.in_flight == 0, 2.0)
    for request_id, heard in events.items():
        terminals = [event for event in heard if isinstance(event, Terminal)]
        assert len(terminals) == 1, request_id
        assert heard[-1] is terminals[0]
        assert terminals[0].finish_reason is FinishReason.ERROR
        assert terminals[0].failure is not None
        assert terminals[0].failure.reason is Reason.WORKER_LOST
        sampled = sum(len(event.token_ids) for event in heard if isinstance(event, Delta))
        assert terminals[0].usage.completion_tokens == sampled
        assert terminals[0].usage.prompt_tokens == (20 if sampled else 0)
    assert not client.health.alive
    assert client.load.running == 0
    assert len(lost) == 1
    with pytest.raises(WeirError) as caught:
        client.submit(submission("late", [97], 1))
    assert caught.value.reason is Reason.WORKER_LOST


async def test_frozen_engine_counts_as_lost(opened: Callable[..., EngineClient]) -> None:
    """Case 17: an engine that is alive and does nothing is as bad as a dead one."""
    lost: list[str] = []
    launcher = launcher_of("process", null_step_us=1000)
    client = opened(launcher, on_lost=lost.append, frozen_after_s=1.5)
    ready = await client.start(START_S)
    events: list[EngineEvent] = []
    client.submit(submission("r", [97], 5000), events.append)
    await eventually(lambda: bool(events))
    os.kill(ready.pid, signal.SIGSTOP)
    await eventually(lambda: bool(lost), 5.0)
    assert "frozen" in lost[0]
    assert isinstance(events[-1], Terminal)
    await eventually(lambda: not process_lives(ready.pid))


async def test_stop_delivers_terminals_and_ends_the_process(
    opened: Callable[..., EngineClient],
) -> None:
    lost: list[str] = []
    client = opened(launcher_of("process", null_step_us=1000), on_lost=lost.append)
    ready = await client.start(START_S)
    events: list[EngineEvent] = []
    client.submit(submission("r", [97], 5000), events.append)
    await eventually(lambda: len(events) > 3)
    for sent in (signal.SIGINT, signal.SIGTERM):
        os.kill(ready.pid, sent)
    count = len(events)
    await eventually(lambda: len(events) > count + 20)
    await client.stop()
    terminal = events[-1]
    assert isinstance(terminal, Terminal)
    assert terminal.finish_reason is FinishReason.ABORT
    assert terminal.failure is not None
    assert terminal.failure.reason is Reason.DRAINING
    assert not process_lives(ready.pid)
    assert lost == []
    with pytest.raises(WeirError) as caught:
        client.submit(submission("late", [97], 1))
    assert caught.value.reason is Reason.DRAINING


def process_lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_engine_ends_when_its_parent_is_killed(tmp_path: Path) -> None:
    script = textwrap.dedent(
        """
        import asyncio
        from tests.worker.engine.test_engine_client import config_of
        from weir_core.clock import SystemClock
        from weir_worker.engine.client import EngineClient
        from weir_worker.engine.launchers import ProcessLauncher

        async def main():
            client = EngineClient(ProcessLauncher(config_of()), SystemClock())
            print((await client.start()).pid, flush=True)
            await asyncio.sleep(60)

        asyncio.run(main())
        """
    )
    environment = {**os.environ, "TOKENWEIR_HOME": str(tmp_path)}
    root = Path(__file__).resolve().parents[3]
    with subprocess.Popen(
        [sys.executable, "-c", script],
        cwd=root,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert process_lives(pid)
        parent.kill()
        parent.wait(10)
        deadline = time.monotonic() + 10
        while process_lives(pid):
            assert time.monotonic() < deadline, "the engine outlived its parent"
            time.sleep(0.02)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"model": "/no/such/folder"}, ["model", "/no/such/folder", "exists"]),
        ({"max_step_tokens": 8}, ["max_step_tokens", "8", "max_running (32)"]),
        ({"num_blocks": None, "kv_memory_bytes": 100}, ["kv_memory_bytes", "100", "128"]),
    ],
)
@pytest.mark.parametrize("kind", ["thread", "process"])
async def test_failed_start_is_one_line_that_names_the_knob(
    kind: str, fields: dict[str, object], words: list[str], opened: Callable[..., EngineClient]
) -> None:
    client = opened(launcher_of(kind, **fields))
    with pytest.raises(StartupError) as caught:
        await client.start(START_S)
    message = str(caught.value)
    assert "\n" not in message
    for word in words:
        assert word in message
    assert not client.health.alive


async def test_engine_that_dies_while_it_starts_says_how(
    monkeypatch: pytest.MonkeyPatch, opened: Callable[..., EngineClient]
) -> None:
    monkeypatch.setenv("PYTHONHOME", "/nonexistent")
    client = opened(launcher_of("process"))
    with pytest.raises(StartupError, match="exit code 1"):
        await client.start(START_S)


async def test_engine_that_does_not_start_in_time_is_ended(
    opened: Callable[..., EngineClient],
) -> None:
    client = opened(launcher_of("process"))
    with pytest.raises(StartupError, match="within 0 s"):
        await client.start(0.01)


@pytest.mark.parametrize(
    ("field", "value"),
    [("block_size", 17), ("num_blocks", 0), ("watermark", 1.0), ("threads", -1)],
)
def test_bad_knob_is_refused_by_name(field: str, value: object) -> None:
    with pytest.raises(InvalidField, match=field):
        config_of(**{field: value})


async def test_bad_request_is_rejected_over_the_process_boundary(
    opened: Callable[..., EngineClient],
) -> None:
    client = opened(launcher_of("thread"))
    await client.start(START_S)
    events = [event async for event in client.stream(submission("bad", [97], 4, stop=[""]))]
    (terminal,) = events
    assert isinstance(terminal, Terminal)
    assert terminal.failure is not None
    error = terminal.failure.to_error()
    assert (error.reason, error.field) == (Reason.INVALID_FIELD, "stop")
    assert await collect(client, "good", 3)


async def test_command_that_cannot_be_encoded_hurts_its_caller_alone(
    opened: Callable[..., EngineClient],
) -> None:
    client = opened(launcher_of("thread"))
    await client.start(START_S)
    other = asyncio.create_task(collect(client, "good", 5))
    await asyncio.sleep(0)
    for fields in ({"tenant": "\ud800"}, {"arrival_us": 2**70}):
        with pytest.raises((ValueError, OverflowError)):
            client.submit(submission("bad", [97], 4, **fields))
    assert len(await other) == 7
    assert client.health.in_flight == 0


async def test_attempt_that_is_not_newer_is_refused_by_the_client(
    opened: Callable[..., EngineClient],
) -> None:
    client = opened(launcher_of("thread", null_step_us=1000))
    await client.start(START_S)
    client.submit(submission("r", [97], 1000, attempt=2))
    for attempt in (1, 2):
        with pytest.raises(WeirError) as caught:
            client.submit(submission("r", [97], 1000, attempt=attempt))
        assert caught.value.reason is Reason.STALE_ATTEMPT
    events: list[EngineEvent] = []
    client.submit(submission("r", [97], 3, attempt=3), events.append)
    await eventually(lambda: client.health.in_flight == 0)
    assert isinstance(events[-1], Terminal)
    assert events[-1].finish_reason is FinishReason.LENGTH
    client.submit(submission("r", [97], 1, attempt=1))
    await eventually(lambda: client.health.in_flight == 0)


async def test_limits_are_checked_before_they_are_sent(
    opened: Callable[..., EngineClient],
) -> None:
    client = opened(launcher_of("thread"))
    await client.start(START_S)
    with pytest.raises(InvalidField, match="max_step_tokens"):
        client.set_limits(max_step_tokens=5)
    client.set_limits(max_running=2, max_step_tokens=4)
    outputs = await asyncio.gather(*(collect(client, f"r{i}", 20) for i in range(6)))
    assert len(outputs) == 6
    assert client.ready.max_running == 2


async def test_failing_listener_hurts_nobody(opened: Callable[..., EngineClient]) -> None:
    def broken(_: object) -> None:
        raise RuntimeError("a bug of the listener")

    client = opened(launcher_of("thread"), on_output=broken)
    await client.start(START_S)
    client.submit(submission("broken", [97], 5), broken)
    assert len(await collect(client, "good", 5)) == 7
    await eventually(lambda: client.health.in_flight == 0)


async def test_client_that_does_not_read_holds_the_engine_up(
    opened: Callable[..., EngineClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine may not run far ahead of what was delivered: an abort would be late."""
    steps = _counted_steps(monkeypatch)
    client = opened(launcher_of("thread", num_blocks=8000, max_running=32))
    await client.start(START_S)
    names = [f"r{i}" for i in range(32)]
    for name in names:
        client.submit(submission(name, [97], 3000), None)
    await eventually(lambda: len(steps) > 0)
    # From here on the event loop stands still, and nobody reads.
    give_up = time.monotonic() + 20
    seen = -1
    while len(steps) != seen and time.monotonic() < give_up:
        seen = len(steps)
        time.sleep(0.3)  # noqa: ASYNC251
    assert seen == len(steps) < 2500
    for name in names:
        client.abort(name, 1)
    await eventually(lambda: client.health.in_flight == 0)
    assert client.load.held_blocks == 0


def _counted_steps(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """Grows by one with every step of the null model in this process."""
    steps: list[None] = []
    run = NullRunner.run

    def counted(
        runner: NullRunner, batch: ForwardBatch, states: Sequence[SamplingState]
    ) -> Samples:
        steps.append(None)
        return run(runner, batch, states)

    monkeypatch.setattr(NullRunner, "run", counted)
    return steps


async def test_real_model_in_a_process_answers_as_in_this_one(
    tmp_path: Path, opened: Callable[..., EngineClient]
) -> None:
    folder = write_tiny_llama(tmp_path / "tiny")
    answers = []
    for kind in ("process", "thread"):
        client = opened(launcher_of(kind, model=str(folder), threads=1))
        ready = await client.start(START_S)
        assert (ready.dtype, ready.device, ready.eos_token_ids) == ("float32", "cpu", [2])
        assert ready.batch_invariant
        events = [e async for e in client.stream(submission("r", list(range(60, 130)), 12))]
        answers.append([event.token_ids for event in events if isinstance(event, Delta)])
        await client.stop()
    assert answers[0] == answers[1]
    assert len(answers[0]) == 12
