"""Counts, durations and calls in flight, under the names of go-grpc-middleware."""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import grpc
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from weir_core.rpc.interceptors.handler import (
    HandlerInterceptor,
    Proceed,
    RpcCall,
    RpcMethod,
)
from weir_core.rpc.interceptors.outcome import code_of
from weir_core.telemetry.metrics import RPC_LATENCY_BUCKETS

_IN_FLIGHT = "grpc_server_in_flight"
_METHOD = ("grpc_type", "grpc_service", "grpc_method")


class MetricsInterceptor(HandlerInterceptor):
    """Measures every RPC that has a handler; unknown methods make no label."""

    def __init__(self, registry: CollectorRegistry) -> None:
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
        self._of_method: dict[RpcMethod, _MethodMetrics] = {}

    async def around(self, call: RpcCall, proceed: Proceed) -> Any:
        """Measures one RPC."""
        return await self.measured(call.method, proceed, partial(code_of, call.context))

    async def measured(
        self,
        method: RpcMethod,
        proceed: Proceed,
        code: Callable[[BaseException | None], grpc.StatusCode],
    ) -> Any:
        """Measures one call of a method, by whichever way it came.

        Args:
            method: what is called.
            proceed: serves the call.
            code: the status that the caller gets for what `proceed` raised, None for nothing.
        """
        metrics = self._of(method)
        metrics.started.inc()
        metrics.in_flight += 1
        began = time.perf_counter()
        error: BaseException | None = None
        try:
            return await proceed()
        except BaseException as exc:
            error = exc
            raise
        finally:
            metrics.in_flight -= 1
            metrics.seconds.observe(time.perf_counter() - began)
            metrics.handled(code(error)).inc()

    def _of(self, method: RpcMethod) -> "_MethodMetrics":
        found = self._of_method.get(method)
        if found is None:
            labels = (method.kind, method.service, method.name)
            found = _MethodMetrics(
                self._started.labels(*labels),
                self._seconds.labels(*labels),
                lambda code: self._handled.labels(*labels, code.name),
            )
            self._in_flight.labels(*labels).set_function(partial(_in_flight, found))
            self._of_method[method] = found
        return found


class _MethodMetrics:
    """The metrics of one method, looked up once: to look them up costs more than to count.

    Attributes:
        in_flight: read when metrics are collected.
    """

    def __init__(
        self,
        started: Counter,
        seconds: Histogram,
        handled: Callable[[grpc.StatusCode], Counter],
    ) -> None:
        self.in_flight = 0
        self.started = started
        self.seconds = seconds
        self._handled = handled
        self._by_code: dict[grpc.StatusCode, Counter] = {}

    def handled(self, code: grpc.StatusCode) -> Counter:
        """RPCs that ended with `code`."""
        found = self._by_code.get(code)
        if found is None:
            found = self._by_code[code] = self._handled(code)
        return found


def _in_flight(metrics: _MethodMetrics) -> float:
    return metrics.in_flight


def rpcs_in_flight(registry: CollectorRegistry) -> int:
    """How many handlers of this registry's servers have not ended, their `finally` included."""
    samples = (s for metric in registry.collect() for s in metric.samples)
    return round(sum(sample.value for sample in samples if sample.name == _IN_FLIGHT))
