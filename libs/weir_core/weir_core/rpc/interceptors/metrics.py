"""Counts, durations and calls in flight, under the names of go-grpc-middleware."""

import time
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from weir_core.rpc.interceptors.handler import Context, HandlerInterceptor, Proceed, RpcMethod
from weir_core.rpc.interceptors.outcome import code_of
from weir_core.telemetry.metrics import RPC_LATENCY_BUCKETS

_IN_FLIGHT = "grpc_server_in_flight"
_METHOD = ("grpc_type", "grpc_service", "grpc_method")


class MetricsInterceptor(HandlerInterceptor):
    """Measures every RPC that has a handler; unknown methods make no label."""

    def __init__(self, registry: CollectorRegistry) -> None:
        super().__init__()
        self._started = Counter("grpc_server_started", "RPCs started", _METHOD, registry=registry)
        self._handled = Counter(
            "grpc_server_handled", "RPCs ended", (*_METHOD, "grpc_code"), registry=registry
        )
        self._seconds = Histogram(
            "grpc_server_handling_seconds",
            "Duration of RPCs; of streams from start to end",
            _METHOD,
            buckets=RPC_LATENCY_BUCKETS,
            registry=registry,
        )
        self._in_flight = Gauge(_IN_FLIGHT, "RPCs being served", _METHOD, registry=registry)

    async def around(self, method: RpcMethod, context: Context, proceed: Proceed) -> Any:
        """Measures one RPC."""
        labels = (method.kind, method.service, method.name)
        self._started.labels(*labels).inc()
        self._in_flight.labels(*labels).inc()
        began = time.perf_counter()
        error: BaseException | None = None
        try:
            return await proceed()
        except BaseException as exc:
            error = exc
            raise
        finally:
            self._in_flight.labels(*labels).dec()
            self._seconds.labels(*labels).observe(time.perf_counter() - began)
            self._handled.labels(*labels, code_of(context, error).name).inc()


def rpcs_in_flight(registry: CollectorRegistry) -> int:
    """How many handlers of this registry's servers have not ended, their `finally` included."""
    samples = (s for metric in registry.collect() for s in metric.samples)
    return round(sum(sample.value for sample in samples if sample.name == _IN_FLIGHT))
