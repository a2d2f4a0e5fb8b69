"""What is counted of requests with an idempotency key."""

from prometheus_client import CollectorRegistry, Counter

from weir_core.errors import WeirError


class IdempotencyMetrics:
    """Counts them by what became of them."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._requests = Counter(
            "weir_gateway_idempotent_requests",
            "Requests with an idempotency key: run, replayed, or the reason of a refusal",
            ("result",),
            registry=registry,
        )

    def claimed(self, *, replayed: bool) -> None:
        """A request that runs, or whose answer is replayed."""
        self._requests.labels("replayed" if replayed else "run").inc()

    def refused(self, error: WeirError) -> None:
        """A request whose key could not be claimed."""
        self._requests.labels(error.reason.lower()).inc()
