"""What is told of the device: of all, of foreign processes, and nothing where nothing is known."""

from types import SimpleNamespace
from typing import Any

from prometheus_client import CollectorRegistry

from weir.scheduler.v1.worker_report_pb2 import WorkerLoad
from weir_worker.device_metrics import DeviceCollector

IDENTITY: Any = SimpleNamespace(
    model="m", profile="nvidia-h200-139g", settings=SimpleNamespace(model_version="2")
)


def seen(load: WorkerLoad) -> dict[tuple[str, str], float]:
    """Values by metric and label."""
    registry = CollectorRegistry(auto_describe=True)
    DeviceCollector(registry, IDENTITY, lambda: load)
    return {
        (sample.name.removeprefix("weir_worker_"), sample.labels.get("by", "")): sample.value
        for family in registry.collect()
        for sample in family.samples
    }


def test_all_and_foreign_use_are_told_apart() -> None:
    load = WorkerLoad(
        device_utilisation_millis=900,
        foreign_utilisation_millis=300,
        device_memory_used_bytes=40 << 30,
        foreign_memory_bytes=10 << 30,
        device_memory_total_bytes=139 << 30,
    )
    load.processor_wait_total.FromMilliseconds(1_500)
    assert seen(load) == {
        ("info", ""): 1,
        ("processor_wait_seconds_total", ""): 1.5,
        ("device_utilisation_ratio", "all"): 0.9,
        ("device_utilisation_ratio", "foreign"): 0.3,
        ("device_memory_used_bytes", "all"): 40 << 30,
        ("device_memory_used_bytes", "foreign"): 10 << 30,
        ("device_memory_bytes", ""): 139 << 30,
    }


def test_what_is_not_known_is_absent() -> None:
    load = WorkerLoad(device_utilisation_millis=-1, foreign_utilisation_millis=-1)
    assert seen(load) == {("info", ""): 1}


def test_the_kind_of_device_and_what_is_served_are_labels() -> None:
    registry = CollectorRegistry(auto_describe=True)
    DeviceCollector(registry, IDENTITY, WorkerLoad)
    labels = {"model": "m", "version": "2", "profile": "nvidia-h200-139g"}
    assert registry.get_sample_value("weir_worker_info", labels) == 1
