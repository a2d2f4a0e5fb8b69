"""What others use of a device: everybody's use less our own."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from weir_worker.device import CpuDevice, UnreadDevice
from weir_worker.foreign_use import (
    CpuForeign,
    ForeignUse,
    NvidiaForeign,
    UnknownForeign,
    foreign_reader,
)

_SERVER, _ENGINE = 10, 11


def _accounts(
    proc: Path, *, busy: int, idle: int, own: dict[int, int], waited_ns: int | None = 0
) -> None:
    """As Linux writes them: user, nice, system, idle, iowait, irq, softirq, steal."""
    proc.joinpath("stat").write_text(f"cpu {busy - 5} 0 2 {idle} 0 0 0 3 0 0\ncpu0 1 2 3\n")
    for pid, ticks in own.items():
        folder = proc / str(pid) / "task" / str(pid)
        folder.mkdir(parents=True, exist_ok=True)
        name = "(a (name) with spaces)"
        proc.joinpath(str(pid), "stat").write_text(
            f"{pid} {name} S 1 1 1 0 -1 0 0 0 0 0 {ticks - 1} 1 0 0 20 0 4 0 100\n"
        )
        if waited_ns is not None:
            folder.joinpath("schedstat").write_text(f"123456 {waited_ns} 9\n")


def test_the_processors_others_use_are_all_but_ours(tmp_path: Path) -> None:
    _accounts(tmp_path, busy=1_000, idle=1_000, own={_SERVER: 100, _ENGINE: 500})
    reader = CpuForeign(_ENGINE, {_SERVER, _ENGINE}, tmp_path)
    _accounts(
        tmp_path, busy=1_080, idle=1_020, own={_SERVER: 110, _ENGINE: 530}, waited_ns=7_000_000
    )
    assert reader.read() == ForeignUse(400, 0, 7_000)
    _accounts(tmp_path, busy=1_120, idle=1_060, own={_SERVER: 110, _ENGINE: 570}, waited_ns=None)
    assert reader.read().utilisation_millis == 0


def test_without_accounts_nothing_is_known(tmp_path: Path) -> None:
    assert CpuForeign(_ENGINE, {_ENGINE}, tmp_path).read() == ForeignUse(-1, 0, -1)
    assert foreign_reader(CpuDevice(), 1, remote=True).read() == ForeignUse()
    assert isinstance(foreign_reader(UnreadDevice("cuda:0"), 1, remote=False), UnknownForeign)


@pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="no schedstat here")
def test_a_process_of_its_own_is_seen_to_wait() -> None:
    """Two that compute on one processor: each waits about as long as it runs."""
    processor = min(os.sched_getaffinity(0))
    command = [sys.executable, "-c", "import time\nt = time.time() + 1\nwhile time.time() < t: 0"]
    both = [subprocess.Popen(command) for _ in range(2)]
    for one in both:
        os.sched_setaffinity(one.pid, {processor})
    reader = CpuForeign(both[0].pid, {both[0].pid})
    seen = 0
    while all(one.poll() is None for one in both):
        seen = max(seen, reader.read().wait_us)
    for one in both:
        one.wait()
    assert seen > 100_000


class _Nvml:
    NVMLError = OSError

    def __init__(self, running: dict[int, int], used: list[tuple[int, int, int]]) -> None:
        self._running = running
        self._used = used

    def nvmlDeviceGetComputeRunningProcesses(self, handle: Any) -> list[Any]:  # noqa: N802
        return [SimpleNamespace(pid=p, usedGpuMemory=m) for p, m in self._running.items()]

    def nvmlDeviceGetProcessUtilization(self, handle: Any, since: int) -> list[Any]:  # noqa: N802
        return [
            SimpleNamespace(pid=pid, timeStamp=at, smUtil=used)
            for pid, at, used in self._used
            if at > since
        ]


def test_on_a_gpu_the_newest_use_of_each_other_process_counts() -> None:
    nvml = _Nvml({_ENGINE: 1_000, 77: 500, 78: 0}, [(77, 1, 90), (77, 2, 30), (_ENGINE, 2, 60)])
    reader = NvidiaForeign(nvml, None, {_SERVER, _ENGINE})
    assert reader.read() == ForeignUse(300, 500)
    assert reader.read() == ForeignUse(0, 500)


def test_where_processes_have_other_ids_there_nobody_is_accused() -> None:
    nvml = _Nvml({4_711: 1_000}, [(4_711, 1, 90)])
    assert NvidiaForeign(nvml, None, {_SERVER, _ENGINE}).read() == ForeignUse()
