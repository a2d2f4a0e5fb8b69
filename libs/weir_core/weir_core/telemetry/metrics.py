"""Prometheus metrics: one registry per process, shared bucket families, bounded labels."""

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector

# The families of vLLM, so that dashboards compare like with like. Seconds, or tokens.
TTFT_BUCKETS = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75,
    1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0,
)  # fmt: skip
TOKEN_LATENCY_BUCKETS = (
    0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5,
    0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
)  # fmt: skip
REQUEST_LATENCY_BUCKETS = (
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0,
    50.0, 60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0,
)  # fmt: skip
RPC_LATENCY_BUCKETS = (
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0,
)  # fmt: skip
TOKEN_COUNT_BUCKETS = (
    1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0, 5000.0,
    10000.0, 20000.0, 50000.0, 100000.0,
)  # fmt: skip
BATCH_SIZE_BUCKETS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0)

OTHER = "other"


def create_registry() -> CollectorRegistry:
    """A fresh registry with the process, platform and garbage-collector metrics in it."""
    registry = CollectorRegistry(auto_describe=True)
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    return registry


class LabelCap:
    """Bounds the values of one label: the first `limit` keep their name, the rest are `other`.

    For tenants and models; a request, session or user id is never a label. A value that was
    given its name keeps it, as a counter that changes its label would seem to run backwards.
    """

    def __init__(self, limit: int = 1_000) -> None:
        self._limit = limit
        self._named: set[str] = set()

    def label(self, value: str) -> str:
        """The label value to use for `value`."""
        if value in self._named:
            return value
        if len(self._named) >= self._limit:
            return OTHER
        self._named.add(value)
        return value
