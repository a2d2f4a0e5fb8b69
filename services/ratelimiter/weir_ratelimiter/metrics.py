"""What the limiter counts. The tenants refused most are labels; users, keys, requests are none."""

from collections.abc import Callable, Iterable
from functools import cache

from prometheus_client import CollectorRegistry, Counter

from weir_core.telemetry.busiest import Busiest
from weir_ratelimiter.domain.shortfall import Shortfall
from weir_ratelimiter.domain.subject import Subject
from weir_ratelimiter.store.base import Ended, ExtendedReservation

_BY_LIMIT = ("tenant", "limit_type", "layer")


class LimiterMetrics:
    """Counters of decisions, in one registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._tenants = Busiest()
        decisions = Counter(
            "weir_ratelimiter_decisions",
            "Decisions by operation and outcome",
            ("operation", "outcome"),
            registry=registry,
        )
        # To look a counter up costs more than to count.
        self._decided: Callable[[str, str], Counter] = cache(decisions.labels)
        self._refusals = Counter(
            "weir_ratelimiter_refusals",
            "Refusals, once for each limit that a request did not fit in",
            _BY_LIMIT,
            registry=registry,
        )
        self._shadow = Counter(
            "weir_ratelimiter_shadow_refusals",
            "What shadow limits would have refused",
            _BY_LIMIT,
            registry=registry,
        )
        self._tenants.bind(self._refusals, self._shadow)
        charged = Counter(
            "weir_ratelimiter_charged_tokens",
            "Tokens charged, without late corrections",
            ("kind",),
            registry=registry,
        )
        self._prompt = charged.labels("prompt")
        self._completion = charged.labels("completion")
        self._conflicts = Counter(
            "weir_ratelimiter_settle_conflicts",
            "Settlements repeated with another usage; the first stands",
            registry=registry,
        )

    def admitted(self) -> None:
        """One request was admitted."""
        self._decided("reserve", "admitted").inc()

    def refused(self, subject: Subject, shortfalls: Iterable[Shortfall]) -> None:
        """One request was refused."""
        self._decided("reserve", "refused").inc()
        self._add(self._refusals, subject, shortfalls)

    def shadow_refused(self, subject: Subject, shortfalls: Iterable[Shortfall]) -> None:
        """Shadow limits would have refused."""
        self._add(self._shadow, subject, shortfalls)

    def extended(self, subject: Subject, extended: ExtendedReservation) -> None:
        """One reservation was extended, in full or for its leases alone."""
        granted = "debt" if extended.in_debt else "granted"
        outcome = "refused" if extended.shortfalls else granted
        self._decided("extend", outcome).inc()
        self._add(self._refusals, subject, extended.shortfalls)

    def ended(self, operation: str, ended: Ended) -> None:
        """One reservation was ended by `operation`, now or before."""
        reservation = ended.reservation
        settlement = reservation.settlement
        outcome = "repeated" if ended.already else reservation.state.name.lower()
        self._decided(operation, outcome).inc()
        if ended.conflict:
            self._conflicts.inc()
        if settlement is not None and not ended.already and not settlement.late:
            self._prompt.inc(settlement.charged.prompt_tokens)
            self._completion.inc(settlement.charged.completion_tokens)

    def _add(self, counter: Counter, subject: Subject, shortfalls: Iterable[Shortfall]) -> None:
        for short in shortfalls:
            limit = short.limit
            tenant = self._tenants.label(subject.tenant_id)
            counter.labels(tenant, limit.limit_type, limit.layer.label).inc()
