"""Prometheus metrics of the device and of what is served on it."""

from collections.abc import Callable, Iterable, Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from weir.scheduler.v1.worker_report_pb2 import WorkerLoad
from weir_worker.device import UNKNOWN
from weir_worker.identity import WorkerIdentity


class DeviceCollector(Collector):
    """Reads the device when scraped; what is not known has no sample.

    Args:
        registry: of the process.
        identity: what is served, on which kind of device.
        load: the latest reading.
    """

    def __init__(
        self,
        registry: CollectorRegistry,
        identity: WorkerIdentity,
        load: Callable[[], WorkerLoad],
    ) -> None:
        self._identity = identity
        self._load = load
        registry.register(self)

    @staticmethod
    def describe() -> Iterable[Metric]:
        """The families; nothing is read."""
        return (_info(), _utilisation(), _memory_used(), _memory_total(), _processor_wait())

    def collect(self) -> Iterator[Metric]:
        """What the device says now."""
        load = self._load()
        info, utilisation, memory, total = _info(), _utilisation(), _memory_used(), _memory_total()
        version = self._identity.settings.model_version
        info.add_metric([self._identity.model, version, self._identity.profile], 1)
        if load.device_utilisation_millis != UNKNOWN:
            utilisation.add_metric(["all"], load.device_utilisation_millis / 1000)
        if load.foreign_utilisation_millis != UNKNOWN:
            utilisation.add_metric(["foreign"], load.foreign_utilisation_millis / 1000)
        if load.device_memory_total_bytes:
            memory.add_metric(["all"], load.device_memory_used_bytes)
            if load.foreign_memory_bytes:
                memory.add_metric(["foreign"], load.foreign_memory_bytes)
            total.add_metric([], load.device_memory_total_bytes)
        wait = _processor_wait()
        if load.HasField("processor_wait_total"):
            wait.add_metric([], load.processor_wait_total.ToMicroseconds() / 1e6)
        yield from (info, utilisation, memory, total, wait)


def _info() -> GaugeMetricFamily:
    return GaugeMetricFamily(
        "weir_worker_info",
        "1; what is served here, and the kind of device",
        labels=["model", "version", "profile"],
    )


def _utilisation() -> GaugeMetricFamily:
    return GaugeMetricFamily(
        "weir_worker_device_utilisation_ratio",
        "Use of the GPU, or of the machine's processors, 0 to 1: by all processes, or by foreign "
        "ones, which are not this worker's",
        labels=["by"],
    )


def _memory_used() -> GaugeMetricFamily:
    return GaugeMetricFamily(
        "weir_worker_device_memory_used_bytes",
        "Memory of the device in use: by all processes, or by foreign ones; the latter absent "
        "where there are none, where they cannot be told apart, and on a CPU",
        labels=["by"],
    )


def _memory_total() -> GaugeMetricFamily:
    return GaugeMetricFamily("weir_worker_device_memory_bytes", "Memory of the device")


def _processor_wait() -> CounterMetricFamily:
    return CounterMetricFamily(
        "weir_worker_processor_wait_seconds",
        "Time in which the engine could have run and others had the processor; none on a GPU",
        labels=(),
    )
