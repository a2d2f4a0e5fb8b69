"""What is counted of requests that were changed instead of being refused."""

from prometheus_client import CollectorRegistry, Counter


class DegradationMetrics:
    """Counts changes by their name; a request may have several."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._changes = Counter(
            "weir_gateway_degradations",
            "Changes of requests that would have been refused, by name",
            ("change",),
            registry=registry,
        )

    def degraded(self, told: tuple[str, ...]) -> None:
        """A request that runs in another form."""
        for change in told:
            self._changes.labels(change.partition("=")[0]).inc()
