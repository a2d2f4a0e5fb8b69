"""One service process as its supervisor sees it."""

import asyncio
import json
import os
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from weir_cli.errors import CommandError

_LONGEST_LINE = 1024 * 1024
_KILL_WAIT_S = 5.0


@dataclass(frozen=True, slots=True)
class ChildSpec:
    """How a service process is started.

    Attributes:
        name: what it is called in messages and by its log file.
        command: program and arguments.
        log: file that gets what it writes on stderr.
        environment: variables beside those of the supervisor.
        start_s: seconds within which it must be ready; None: as others.
        drain_s: seconds that it may take to end after SIGTERM.
        stage: processes of a higher stage are ended first.
    """

    name: str
    command: Sequence[str]
    log: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    start_s: float | None = None
    drain_s: float = 45.0
    stage: int = 0


class StartFailed(CommandError):
    """A service process did not come up; the message is its own line, and where its log is."""


class Child:
    """Starts a process, reads the JSON line with which it says `ready` or `failed`, ends it.

    The process gets a session of its own, so that Ctrl-C at the terminal reaches the supervisor
    alone.
    """

    def __init__(self, spec: ChildSpec) -> None:
        self.spec = spec
        self.ready: dict[str, str] = {}
        """The ready line: `event, service, pid` and the addresses that it listens on."""
        self._process: Process | None = None
        self._reader: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int:
        """Process id, 0 before the start."""
        return self._process.pid if self._process else 0

    async def start(self, deadline_s: float) -> None:
        """Returns once the process has said that it is ready.

        Raises StartFailed when it says why it failed, ends, or takes longer than `deadline_s`.
        """
        deadline_s = self.spec.start_s or deadline_s
        self._process = await self._spawn()
        try:
            async with asyncio.timeout(deadline_s):
                await self._read_ready(self._process)
        except TimeoutError:
            raise self._failed(f"it was not ready after {deadline_s:.0f} s") from None
        self._reader = asyncio.create_task(self._drain_stdout(self._process))

    async def wait(self) -> int:
        """Returns the exit status when the process ends; negative for a signal."""
        if self._process is None:
            return 0
        return await self._process.wait()

    async def stop(self) -> bool:
        """Ends the process: SIGTERM, then SIGKILL after `drain_s`. False if it had to be killed."""
        process = self._process
        if process is None:
            return True
        in_time = True
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
            in_time = await _ends_within(process, self.spec.drain_s)
            if not in_time:
                await self.kill()
        if self._reader is not None:
            await asyncio.wait({self._reader}, timeout=_KILL_WAIT_S)
            self._reader.cancel()
        return in_time

    async def kill(self) -> None:
        """Ends the process and what it started at once."""
        process = self._process
        if process is None or process.returncode is not None:
            return
        try:
            # Its own session makes it the leader of a process group of the same number.
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            process.kill()
        await _ends_within(process, _KILL_WAIT_S)

    async def _spawn(self) -> Process:
        with self.spec.log.open("ab") as log:
            try:
                return await asyncio.create_subprocess_exec(
                    *self.spec.command,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=PIPE,
                    stderr=log,
                    env={**os.environ, **self.spec.environment},
                    start_new_session=True,
                    limit=_LONGEST_LINE,
                )
            except OSError as error:
                raise StartFailed(f"{self.spec.name} did not start: {error}") from None

    async def _read_ready(self, process: Process) -> None:
        while line := await _read_line(process):
            event = _event(line)
            if event.get("event") == "ready":
                self.ready = event
                return
            if event.get("event") == "failed":
                raise self._failed(event.get("error", "it gave no reason"))
        status = await process.wait()
        raise self._failed(last_line(self.spec.log) or f"it ended with status {status}")

    def _failed(self, reason: str) -> StartFailed:
        return StartFailed(f"{self.spec.name} did not start: {reason} (log: {self.spec.log})")

    async def _drain_stdout(self, process: Process) -> None:
        """Keeps reading, else a process that prints would block; what comes goes to its log."""
        with self.spec.log.open("ab") as log:
            while line := await _read_line(process):
                log.write(line)
                log.flush()


def last_line(log: Path) -> str:
    """The last line of a log that is not empty, cut to 300 characters."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - 16_384))
            text = file.read().decode("utf-8", errors="replace")
    except OSError:
        return ""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else ""


async def _read_line(process: Process) -> bytes:
    if process.stdout is None:
        return b""
    try:
        return await process.stdout.readline()
    except ValueError:  # longer than the limit; the reader has dropped it
        return b"\n"


def _event(line: bytes) -> dict[str, str]:
    try:
        event = json.loads(line)
    except ValueError:
        return {}
    return event if isinstance(event, dict) else {}


async def _ends_within(process: Process, seconds: float) -> bool:
    try:
        async with asyncio.timeout(seconds):
            await process.wait()
    except TimeoutError:
        return False
    return True
