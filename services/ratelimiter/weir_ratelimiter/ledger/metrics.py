"""How far the ledger is behind, and what hinders it."""

from prometheus_client import CollectorRegistry, Counter, Gauge

from weir_ratelimiter.store.base import Backlog


class LedgerMetrics:
    """Metrics of one pump, in one registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._rows = Counter(
            "weir_ratelimiter_ledger_rows",
            "Rows written by this process, by kind",
            ("kind",),
            registry=registry,
        )
        self._duplicates = Counter(
            "weir_ratelimiter_ledger_duplicates",
            "Events whose row the ledger had already; repeats after a crash are usual",
            registry=registry,
        )
        self._errors = Counter(
            "weir_ratelimiter_ledger_errors",
            "Failures: of `database` or `store`, tried again; `rejected`: an event set aside",
            ("cause",),
            registry=registry,
        )
        # There from the start, at 0: an increase from nothing is none.
        for cause in ("database", "store", "rejected"):
            self._errors.labels(cause)
        self._events = Gauge(
            "weir_ratelimiter_ledger_lag_events",
            "Events that the ledger has not taken yet",
            registry=registry,
        )
        self._seconds = Gauge(
            "weir_ratelimiter_ledger_lag_seconds",
            "Age of the oldest event that the ledger has not taken yet",
            registry=registry,
        )

    def written(self, kind: str, number: int) -> None:
        """Rows were written."""
        self._rows.labels(kind).inc(number)

    def repeated(self, number: int) -> None:
        """Events had their rows already."""
        self._duplicates.inc(number)

    def failed(self, cause: str) -> None:
        """A batch failed (`database`, `store`) or an event was set aside (`rejected`)."""
        self._errors.labels(cause).inc()

    def behind(self, backlog: Backlog, now_ms: int) -> None:
        """How far the ledger is behind now."""
        oldest = now_ms if backlog.oldest_ms is None else backlog.oldest_ms
        self._events.set(backlog.events)
        self._seconds.set(max(0, now_ms - oldest) / 1_000)
