"""What the gateway counts."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Gauge

from weir.common.v1.lifecycle_pb2 import LifecycleRecord, Outcome
from weir_core.errors import LimitExceeded, WeirError
from weir_core.telemetry.busiest import Busiest
from weir_core.telemetry.exemplars import Exemplar
from weir_core.telemetry.metrics import LabelCap
from weir_gateway.request_histograms import RequestHistograms, RequestSeries
from weir_gateway.version_metrics import VersionMetrics

_MAX_SERIES = 10_000
_OUTCOMES = {number: name.removeprefix("OUTCOME_").lower() for name, number in Outcome.items()}


class GatewayMetrics:
    """Counters and histograms of requests; tenants and models are bounded labels.

    The busiest tenants, by tokens, have their name; the rest are `other`.

    Args:
        registry: they are added to it.
        own: further ones by tenant id, which count that tenant's requests too.
        tenants: says which of them have a name; None for the usual number.
    """

    def __init__(
        self,
        registry: CollectorRegistry,
        own: Mapping[str, "GatewayMetrics"] | None = None,
        *,
        tenants: Busiest | None = None,
    ) -> None:
        self._own = dict(own or {})
        self.on_refused: list[Callable[[WeirError, str], None]] = []
        """Told of each refusal, with the id of the tenant or nothing."""
        self._tenants = tenants or Busiest()
        self._models = LabelCap()
        self._limits = LabelCap()
        self._versions = VersionMetrics(registry)
        self._histograms = RequestHistograms(registry)
        self._series: dict[tuple[str, str], _Series] = {}
        self._requests = Counter(
            "weir_gateway_requests",
            "Accepted requests that ended, by outcome",
            ("tenant", "model", "outcome"),
            registry=registry,
        )
        self._refused = Counter(
            "weir_gateway_refused", "Requests refused, by reason", ("reason",), registry=registry
        )
        self._limited = Counter(
            "weir_gateway_limited",
            "Requests answered 429, once for each limit that they did not fit in",
            ("tenant", "limit_type", "limit"),
            registry=registry,
        )
        self._tokens = Counter(
            "weir_gateway_tokens",
            "Tokens of ended requests: input, cached ones included, or output",
            ("tenant", "model", "direction"),
            registry=registry,
        )
        self._unsettled = Counter(
            "weir_gateway_unsettled", "Settlements left to the sweep", registry=registry
        )
        self.job_attempts = Counter(
            "weir_gateway_job_attempts",
            "Attempts at jobs that ended, by what came of them",
            ("outcome",),
            registry=registry,
        )
        self.jobs_running = Gauge(
            "weir_gateway_jobs_running", "Attempts at jobs that run here", registry=registry
        )
        self.webhook_attempts = Counter(
            "weir_gateway_webhook_attempts",
            "Attempts to deliver a webhook, by what came of them",
            ("outcome",),
            registry=registry,
        )
        self.unheard = Gauge(
            "weir_gateway_unheard_calls",
            "Calls to the ratelimiter that are repeated until they are heard",
            registry=registry,
        )
        self.in_flight = Gauge(
            "weir_gateway_requests_in_flight", "Requests between arrival and end", registry=registry
        )
        self._tenants.bind(self._requests, self._limited, self._tokens)
        self._tenants.on_change(self._forget)

    def refused(self, error: WeirError, tenant_id: str) -> None:
        """A request was refused before it was accepted."""
        if tenant_id in self._own:
            self._own[tenant_id].refused(error, tenant_id)
        for told in self.on_refused:
            told(error, tenant_id)
        self._refused.labels(error.reason).inc()
        if isinstance(error, LimitExceeded):
            tenant = self._tenants.label(tenant_id)
            for violation in error.violations:
                limit = self._limits.label(violation.limit_id.rpartition("/")[2])
                self._limited.labels(tenant, violation.limit_type, limit).inc()

    def unsettled(self) -> None:
        """A settlement was given up."""
        self._unsettled.inc()

    def ended(
        self, record: LifecycleRecord, arrived_us: int, exemplar: Exemplar | None = None
    ) -> None:
        """An accepted request has ended.

        Args:
            record: of its life.
            arrived_us: Unix microseconds.
            exemplar: its trace, if that is recorded.
        """
        if record.subject.tenant_id in self._own:
            self._own[record.subject.tenant_id].ended(record, arrived_us, exemplar)
        self._versions.ended(record, arrived_us)
        tenant, model, usage = record.subject.tenant_id, record.subject.model, record.usage
        label = self._tenants.label(tenant, usage.prompt_tokens + usage.completion_tokens)
        series = self._series.get((tenant, model))
        if series is None:
            series = self._make_series(tenant, label, model)
        self._requests.labels(*series.labels, _OUTCOMES[record.outcome]).inc()
        series.input.inc(usage.prompt_tokens)
        series.output.inc(usage.completion_tokens)
        series.observed.ended(record, arrived_us, exemplar)

    def _make_series(self, tenant_id: str, tenant: str, model_name: str) -> "_Series":
        model = self._models.label(model_name)
        if len(self._series) >= _MAX_SERIES:
            self._series.clear()
        series = self._series[tenant_id, model_name] = _Series(
            labels=(tenant, model),
            input=self._tokens.labels(tenant, model, "input"),
            output=self._tokens.labels(tenant, model, "output"),
            observed=self._histograms.of(model),
        )
        return series

    def _forget(self, tenant_id: str) -> None:
        for key in [key for key in self._series if key[0] == tenant_id]:
            del self._series[key]


@dataclass(frozen=True, slots=True)
class _Series:
    """The series of one tenant and model: looking labels up costs more than counting."""

    labels: tuple[str, str]
    input: Counter
    output: Counter
    observed: RequestSeries
