"""How much of the device others use: processes that are neither this server nor its engine."""

import os
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from weir_worker.device import UNKNOWN, CpuDevice, Device, NvidiaDevice


class ForeignUse(NamedTuple):
    """One reading.

    Attributes:
        utilisation_millis: of others, 0 to 1000 since the last reading; -1 unknown.
        memory: bytes of the device's own memory that others use; 0 unknown, or not its own.
        wait_us: total time in which the engine could have run and others had the processor;
            -1 unknown.
    """

    utilisation_millis: int = UNKNOWN
    memory: int = 0
    wait_us: int = UNKNOWN


class ForeignReader(Protocol):
    """Reads what others use."""

    def read(self) -> ForeignUse:
        """A reading of now; fast, raises nothing."""


def foreign_reader(device: Device, engine_pid: int, *, remote: bool) -> ForeignReader:
    """The reader for a device; of a `remote` engine it is not known which processes are ours."""
    pids = frozenset((os.getpid(), engine_pid))
    if remote:
        return UnknownForeign()
    if isinstance(device, CpuDevice):
        return CpuForeign(engine_pid, pids)
    if isinstance(device, NvidiaDevice):
        return NvidiaForeign(*device.handles, pids)
    return UnknownForeign()


class UnknownForeign:
    """Nothing is known."""

    def read(self) -> ForeignUse:
        """See `ForeignReader`."""
        return ForeignUse()


class CpuForeign:
    """From Linux's accounts: everybody's time less our own, time stolen by a host included.

    Args:
        engine_pid: whose waits for a processor are told.
        pids: ours.
    """

    def __init__(self, engine_pid: int, pids: Collection[int], proc: Path = Path("/proc")) -> None:
        self._engine = proc / str(engine_pid) / "task"
        self._proc = proc
        self._pids = pids
        self._last = self._ticks()

    def read(self) -> ForeignUse:
        """See `ForeignReader`."""
        before, now = self._last, self._ticks()
        self._last = now
        busy, total, own = (b - a for a, b in zip(before, now, strict=True))
        share = UNKNOWN if total <= 0 else max(0, min(1000, 1000 * (busy - own) // total))
        return ForeignUse(share, 0, self._wait_us())

    def _ticks(self) -> tuple[int, int, int]:
        """Of everybody while busy, of everybody, of ours while busy."""
        try:
            first = (self._proc / "stat").read_text().split("\n", 1)[0]
            user, nice, system, idle, iowait, *rest = map(int, first.split()[1:9])
        except (OSError, ValueError):
            return 0, 0, 0
        busy = user + nice + system + sum(rest)
        return busy, busy + idle + iowait, sum(self._own(pid) for pid in self._pids)

    def _own(self, pid: int) -> int:
        try:
            text = (self._proc / str(pid) / "stat").read_text()
        except OSError:
            return 0
        # After the name, which may hold spaces, and the state: fields 14 and 15 of the line.
        fields = text.rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])

    def _wait_us(self) -> int:
        waited_ns, threads = 0, 0
        with suppress(OSError):
            for task in self._engine.iterdir():
                with suppress(OSError, ValueError, IndexError):
                    waited_ns += int((task / "schedstat").read_text().split()[1])
                    threads += 1
        return waited_ns // 1_000 if threads else UNKNOWN


class NvidiaForeign:
    """From NVML, where our own process is among those it names: else it counts others' ids.

    Args:
        nvml: the library.
        handle: of the GPU.
        pids: ours.
    """

    def __init__(self, nvml: Any, handle: Any, pids: Collection[int]) -> None:
        self._nvml = nvml
        self._handle = handle
        self._pids = pids
        self._seen_us = 0

    def read(self) -> ForeignUse:
        """See `ForeignReader`."""
        try:
            running = self._nvml.nvmlDeviceGetComputeRunningProcesses(self._handle)
        except self._nvml.NVMLError:
            return ForeignUse()
        if not any(process.pid in self._pids for process in running):
            return ForeignUse()
        memory = sum(
            process.usedGpuMemory or 0 for process in running if process.pid not in self._pids
        )
        return ForeignUse(self._utilisation(), memory)

    def _utilisation(self) -> int:
        """Of the newest sample of each process; NVML has none where nothing ran."""
        newest: dict[int, tuple[int, int]] = {}
        try:
            samples = self._nvml.nvmlDeviceGetProcessUtilization(self._handle, self._seen_us)
        except self._nvml.NVMLError:
            return 0
        for sample in samples:
            self._seen_us = max(self._seen_us, sample.timeStamp)
            if sample.pid not in self._pids:
                newest[sample.pid] = max(
                    newest.get(sample.pid, (0, 0)), (sample.timeStamp, sample.smUtil)
                )
        return min(1000, 10 * sum(used for _, used in newest.values()))
