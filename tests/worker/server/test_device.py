"""Readings of the device."""

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from weir_worker.device import CpuDevice, DeviceUse, NvidiaDevice, open_device


def write(proc: Path, busy: int, idle: int, available_kib: int = 600) -> None:
    proc.joinpath("stat").write_text(f"cpu  {busy} 0 0 {idle} 0 0 0 0 0 0\ncpu0 1 2 3\n")
    meminfo = f"MemTotal: 1000 kB\nMemFree: 5 kB\nMemAvailable: {available_kib} kB\n"
    proc.joinpath("meminfo").write_text(meminfo)


def test_the_processor_is_read_as_a_whole_since_the_last_reading(tmp_path: Path) -> None:
    write(tmp_path, busy=100, idle=100)
    device = CpuDevice("cpu", tmp_path)
    write(tmp_path, busy=175, idle=125)
    assert device.use() == DeviceUse(750, 400 * 1024, 1000 * 1024)
    assert device.use().utilisation_millis == -1
    write(tmp_path, busy=175, idle=225)
    assert device.use().utilisation_millis == 0


def test_a_system_without_proc_is_unknown(tmp_path: Path) -> None:
    assert CpuDevice("cpu", tmp_path / "none").use() == DeviceUse(-1, 0, 0)


def test_a_gpu_that_cannot_be_read_is_unknown_and_not_the_machine(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    device = open_device("cuda:0")
    assert device.name.endswith("/cuda:0")
    assert device.use() == DeviceUse(-1, 0, 0)
    assert "install the extra 'gpu'" in caplog.text


class FakeNvml:
    """The few calls of NVML that are made; it can fail like the driver."""

    class NVMLError(Exception):
        pass

    def __init__(self) -> None:
        self.broken = False

    def nvmlDeviceGetMemoryInfo(self, _: object) -> SimpleNamespace:  # noqa: N802
        return SimpleNamespace(total=80 << 30, used=20 << 30)

    def nvmlDeviceGetUtilizationRates(self, _: object) -> SimpleNamespace:  # noqa: N802
        if self.broken:
            raise self.NVMLError
        return SimpleNamespace(gpu=37)

    def nvmlInit(self) -> None:  # noqa: N802
        pass

    def nvmlDeviceGetHandleByIndex(self, index: int) -> str:  # noqa: N802
        return f"index {index}"

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:  # noqa: N802
        return f"uuid {uuid}"

    def nvmlDeviceGetName(self, _: object) -> str:  # noqa: N802
        return "NVIDIA H200"

    def nvmlDeviceGetUUID(self, _: object) -> str:  # noqa: N802
        return "GPU-123"


def test_a_gpu_tells_use_by_anyone() -> None:
    nvml = FakeNvml()
    device = NvidiaDevice(nvml, object())
    assert (device.name, device.profile) == ("GPU-123", "nvidia-h200-80g")
    assert device.use() == DeviceUse(370, 20 << 30, 80 << 30)
    nvml.broken = True
    assert device.use() == DeviceUse(-1, 20 << 30, 80 << 30)


@pytest.mark.parametrize(
    ("visible", "handle"),
    [("", "index 1"), ("3,2", "index 2"), ("GPU-a,MIG-b", "uuid MIG-b"), ("5", "index 1")],
)
def test_a_gpu_is_found_by_what_torch_calls_it(
    monkeypatch: pytest.MonkeyPatch, visible: str, handle: str
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml())
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    device = open_device("cuda:1")
    assert isinstance(device, NvidiaDevice)
    assert device._handle == handle


def test_gpus_that_share_a_model_are_read_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml())
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    device = open_device("cuda:0", 2)
    assert (device.name, device.profile) == ("GPU-123", "2x-nvidia-h200-80g")
    assert device.use() == DeviceUse(370, 40 << 30, 160 << 30)
