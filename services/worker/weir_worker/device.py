"""How busy the device is, also by processes that are not ours."""

import importlib
import logging
import os
import socket
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, Protocol

logger = logging.getLogger(__name__)

UNKNOWN = -1


class DeviceUse(NamedTuple):
    """One reading.

    Attributes:
        utilisation_millis: 0 to 1000 since the last reading; -1 unknown.
        memory_used: bytes in use by anyone; 0 unknown.
        memory_total: bytes; 0 unknown.
    """

    utilisation_millis: int
    memory_used: int
    memory_total: int


class Device(Protocol):
    """What the model runs on."""

    @property
    def name(self) -> str:
        """Stable id, such as a GPU's UUID or `host/cpu`."""

    @property
    def profile(self) -> str:
        """Kind and size, such as `cpu-2c` or `nvidia-h200-139g`."""

    def use(self) -> DeviceUse:
        """A reading of now; fast, raises nothing."""


def open_device(device: str, count: int = 1) -> Device:
    """The device that torch calls `device`, such as `cpu` or `cuda:0`, and those that follow.

    A GPU that cannot be read is told as unknown, and why is logged.
    """
    if not device.startswith("cuda"):
        return CpuDevice(device)
    first = int(device.partition(":")[2] or 0)
    gpus = [_open_gpu(first + place) for place in range(count)]
    return gpus[0] if count == 1 else DeviceGroup(gpus)


class CpuDevice:
    """The processor and its memory, as Linux counts them; unknown elsewhere."""

    def __init__(self, kind: str = "cpu", proc: Path = Path("/proc")) -> None:
        self._kind = kind
        self._proc = proc
        self._busy, self._all = self._ticks()

    @property
    def name(self) -> str:
        """See `Device`."""
        return f"{socket.gethostname()}/{self._kind}"

    @property
    def profile(self) -> str:
        """See `Device`."""
        return f"{self._kind}-{os.cpu_count() or 1}c"

    def use(self) -> DeviceUse:
        """See `Device`."""
        busy, total = self._ticks()
        passed = total - self._all
        share = UNKNOWN if passed <= 0 else 1000 * (busy - self._busy) // passed
        self._busy, self._all = busy, total
        return DeviceUse(max(UNKNOWN, min(1000, share)), *self._memory())

    def _ticks(self) -> tuple[int, int]:
        try:
            fields = (self._proc / "stat").read_text().split("\n", 1)[0].split()[1:9]
        except OSError:
            return 0, 0
        user, nice, system, _idle, _iowait, *rest = map(int, fields)
        return user + nice + system + sum(rest), sum(map(int, fields))

    def _memory(self) -> tuple[int, int]:
        try:
            lines = (self._proc / "meminfo").read_text().splitlines()
        except OSError:
            return 0, 0
        kib = {name: int(rest.split()[0]) for name, _, rest in (x.partition(":") for x in lines)}
        total = kib.get("MemTotal", 0)
        return (total - kib.get("MemAvailable", total)) * 1024, total * 1024


class NvidiaDevice:
    """A GPU, read through NVML."""

    def __init__(self, nvml: Any, handle: Any) -> None:
        self._nvml = nvml
        self._handle = handle
        self._memory_total = int(nvml.nvmlDeviceGetMemoryInfo(handle).total)

    @property
    def name(self) -> str:
        """See `Device`."""
        return str(self._nvml.nvmlDeviceGetUUID(self._handle))

    @property
    def profile(self) -> str:
        """See `Device`."""
        model = str(self._nvml.nvmlDeviceGetName(self._handle)).lower().replace(" ", "-")
        return f"{model}-{self._memory_total >> 30}g"

    @property
    def handles(self) -> tuple[Any, Any]:
        """The library and its handle."""
        return self._nvml, self._handle

    def use(self) -> DeviceUse:
        """See `Device`. A slice of a GPU (MIG) tells its memory and no utilisation."""
        utilisation, used = UNKNOWN, 0
        with suppress(self._nvml.NVMLError):
            utilisation = 10 * int(self._nvml.nvmlDeviceGetUtilizationRates(self._handle).gpu)
        with suppress(self._nvml.NVMLError):
            used = int(self._nvml.nvmlDeviceGetMemoryInfo(self._handle).used)
        return DeviceUse(utilisation, used, self._memory_total)


class UnreadDevice:
    """A GPU of which nothing is known but that it is there."""

    def __init__(self, kind: str) -> None:
        self._kind = kind

    @property
    def name(self) -> str:
        """See `Device`."""
        return f"{socket.gethostname()}/{self._kind}"

    @property
    def profile(self) -> str:
        """See `Device`."""
        return "cuda"

    def use(self) -> DeviceUse:
        """See `Device`."""
        return DeviceUse(UNKNOWN, 0, 0)


class DeviceGroup:
    """Several devices that compute one model, each step as fast as the busiest."""

    def __init__(self, devices: Sequence[Device]) -> None:
        self._devices = devices

    @property
    def name(self) -> str:
        """See `Device`: that of the first."""
        return self._devices[0].name

    @property
    def profile(self) -> str:
        """See `Device`."""
        return f"{len(self._devices)}x-{self._devices[0].profile}"

    def use(self) -> DeviceUse:
        """See `Device`: the highest utilisation, and the memory of all."""
        uses = [device.use() for device in self._devices]
        return DeviceUse(
            max(use.utilisation_millis for use in uses),
            sum(use.memory_used for use in uses),
            sum(use.memory_total for use in uses),
        )


def _open_gpu(index: int) -> Device:
    """Unread without driver or without the package `nvidia-ml-py`."""
    try:
        nvml = importlib.import_module("pynvml")
        nvml.nvmlInit()
        return NvidiaDevice(nvml, _handle(nvml, index))
    except Exception as error:
        # NVMLError is a class of the module whose import may be what failed.
        logger.warning(
            "cuda:%d cannot be read (%s); its use is told as unknown: install the extra 'gpu'",
            index,
            error,
        )
        return UnreadDevice(f"cuda:{index}")


def _handle(nvml: Any, index: int) -> Any:
    """NVML counts all GPUs; torch only those in CUDA_VISIBLE_DEVICES, by number or by UUID."""
    visible = [x.strip() for x in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if x]
    if index >= len(visible):
        return nvml.nvmlDeviceGetHandleByIndex(index)
    if visible[index].isdigit():
        return nvml.nvmlDeviceGetHandleByIndex(int(visible[index]))
    return nvml.nvmlDeviceGetHandleByUUID(visible[index])
