"""`weir up` as a process, for tests."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.e2e.deployment import FEW_BLOCKS
from tests.homes import new_home

COMMAND = [sys.executable, "-m", "weir_cli", "up"]
SERVING = "Serving until Ctrl-C"


class RunningStack:
    """Starts `weir up` in a session of its own, as a terminal would, and reads what it prints."""

    def __init__(
        self, folder: Path, *arguments: str, environment: Mapping[str, str] | None = None
    ) -> None:
        self.folder = folder
        self._output = folder / "output"
        folder.mkdir(parents=True, exist_ok=True)
        with self._output.open("wb") as output:
            self.process = subprocess.Popen(
                [*COMMAND, "--port", "0", "--state-dir", str(folder / "state"), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={
                    **os.environ,
                    "TOKENWEIR_HOME": str(new_home(folder / "home")),
                    **(FEW_BLOCKS if "--null" in arguments else {}),
                    **(environment or {}),
                },
            )

    @property
    def output(self) -> str:
        return self._output.read_text(encoding="utf-8")

    def wait_for(self, text: str, seconds: float = 60.0) -> str:
        """Waits until it has printed `text`; returns all that it printed."""
        ends_at = time.monotonic() + seconds
        while text not in self.output:
            assert self.process.poll() is None, f"it ended:\n{self.output}"
            assert time.monotonic() < ends_at, f"no {text!r} in {seconds} s:\n{self.output}"
            time.sleep(0.05)
        return self.output

    def value(self, label: str) -> str:
        """The second column of a line of the welcome text, such as `API key`."""
        (line,) = (x for x in self.output.splitlines() if x.startswith(f"{label}  "))
        return line.removeprefix(label).split()[0]

    def interrupt(self) -> None:
        """Ctrl-C at the terminal: SIGINT to the whole process group."""
        os.killpg(self.process.pid, signal.SIGINT)

    def children(self) -> dict[int, str]:
        """Command lines of living processes that belong to it, engines included."""
        return processes_of(str(self.folder / "state"))

    def wait_no_children(self, seconds: float) -> None:
        ends_at = time.monotonic() + seconds
        while self.children():
            assert time.monotonic() < ends_at, self.children()
            time.sleep(0.1)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self.process.poll() is None:
            self.interrupt()
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                raise
        for pid in self.children():
            os.kill(pid, signal.SIGKILL)


def processes_of(path: str) -> dict[int, str]:
    """Living processes whose command line names `path`, and all that they started."""
    command_lines, parents = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                stat = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if stat[0] != "Z":
                command_lines[int(entry.name)], parents[int(entry.name)] = line, int(stat[1])
    found = {pid for pid, line in command_lines.items() if path in line and "weir_cli" not in line}
    while grown := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= grown
    return {pid: command_lines[pid] for pid in found}
