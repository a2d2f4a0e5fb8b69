"""A run in numbers: by tenant and in total."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from weir_sim.outcome import Ending, Outcome, RequestRecord
from weir_sim.report.fairness import (
    ContendedShare,
    attainment,
    bound_2u,
    contended_shares,
    jain,
    max_gap,
    weights_of,
)
from weir_sim.report.offered_load import offered_load
from weir_sim.setup import Setup
from weir_sim.workload import Workload

TOTAL = "total"


@dataclass(frozen=True, slots=True)
class Spread:
    """Percentiles, seconds; None without a value."""

    p50: float | None
    p95: float | None
    p99: float | None


def spread(values: Sequence[float]) -> Spread:
    """Percentiles of values."""
    if not values:
        return Spread(None, None, None)
    p50, p95, p99 = np.quantile(values, (0.5, 0.95, 0.99))
    return Spread(float(p50), float(p95), float(p99))


@dataclass(frozen=True, slots=True)
class TenantNumbers:
    """One tenant, or all.

    Attributes:
        tenant: its id.
        weight: its share's weight; 0 for the total.
        requests: that arrived.
        completed: of them.
        refused: by limiter or scheduler.
        ttft: arrival to first token.
        itl: between output tokens: p50 of the requests' means, p95 and p99 of their own p99.
        e2e: arrival to end, of the completed.
        tokens_s: output tokens per second of the run.
        share_of_all: of all service charged, 0 to 1; of a load that drains, what it asked for.
        contended: its share while two or more tenants waited, and its due then; None if it
            did not wait with another.
        attained: service while it waited over its due (`fairness.attainment`); None if it
            hardly waited.
    """

    tenant: str
    weight: int
    requests: int
    completed: int
    refused: int
    ttft: Spread
    itl: Spread
    e2e: Spread
    tokens_s: float
    share_of_all: float
    contended: ContendedShare | None
    attained: float | None


@dataclass(frozen=True)
class RunNumbers:
    """A whole run.

    Attributes:
        name: of its setup.
        tenants: the busiest first.
        total: over all.
        max_gap: largest difference of service per weight between two that both waited.
        bound_2u: what weighted isolation promises of it.
        jain: evenness of `attained` over the tenants that waited.
        offered_load: work that arrives over what the fleet can do; None if it never was full.
        prefix_hit: share of prompt tokens found in caches.
        worker_max_over_mean: busy time of the busiest worker over the mean.
        seconds: simulated.
    """

    name: str
    tenants: tuple[TenantNumbers, ...]
    total: TenantNumbers
    max_gap: float
    bound_2u: float
    jain: float
    offered_load: float | None
    prefix_hit: float
    worker_max_over_mean: float
    seconds: float

    @property
    def gap_over_2u(self) -> float:
        """At most 1 where the bound holds."""
        return self.max_gap / self.bound_2u

    def as_json(self) -> dict[str, Any]:
        """For `-o json`."""
        return asdict(self) | {"gap_over_2u": self.gap_over_2u}


def numbers(name: str, workload: Workload, setup: Setup, outcome: Outcome) -> RunNumbers:
    """Sums a run up."""
    log = outcome.service
    weights = weights_of(workload, setup, log.tenants)
    attained = attainment(log, weights)
    contended = contended_shares(log, weights)
    records: dict[str, list[RequestRecord]] = defaultdict(list)
    for record in outcome.records:
        records[record.request.tenant_id].append(record)
    services = dict(zip(log.tenants, log.charged[-1].tolist(), strict=True))
    served = sum(services.values()) or 1
    by_weight = dict(zip(log.tenants, weights, strict=True))
    tenants = [
        _numbers(
            tenant,
            of_tenant,
            outcome,
            by_weight.get(tenant, setup.tenant.weight),
            services.get(tenant, 0) / served,
            contended.get(tenant),
            attained.get(tenant),
        )
        for tenant, of_tenant in records.items()
    ]
    busy = [worker.busy_s for worker in outcome.workers]
    return RunNumbers(
        name=name,
        tenants=tuple(sorted(tenants, key=lambda one: (-one.share_of_all, one.tenant))),
        total=_numbers(TOTAL, outcome.records, outcome, 0, 1.0, None, None),
        max_gap=max_gap(log, weights),
        bound_2u=bound_2u(workload, setup, outcome),
        jain=jain(list(attained.values())),
        offered_load=offered_load(outcome),
        prefix_hit=_prefix_hit(outcome),
        worker_max_over_mean=max(busy) / (float(np.mean(busy)) or 1.0),
        seconds=outcome.end_s,
    )


def _numbers(
    tenant: str,
    records: Sequence[RequestRecord],
    outcome: Outcome,
    weight: int,
    share_of_all: float,
    contended: ContendedShare | None,
    attained: float | None,
) -> TenantNumbers:
    completed = [record for record in records if record.outcome is Ending.COMPLETED]
    refused = (Ending.REFUSED, Ending.REJECTED)
    return TenantNumbers(
        tenant=tenant,
        weight=weight,
        requests=len(records),
        completed=len(completed),
        refused=sum(record.outcome in refused for record in records),
        ttft=spread([record.ttft_s for record in records if record.ttft_s is not None]),
        itl=_itl(records),
        e2e=spread([r.end_s - r.request.arrival_s for r in completed if r.end_s is not None]),
        tokens_s=sum(record.output_tokens for record in records) / (outcome.end_s or 1.0),
        share_of_all=share_of_all,
        contended=contended,
        attained=attained,
    )


def _itl(records: Sequence[RequestRecord]) -> Spread:
    means = [record.tpot_s for record in records if record.tpot_s is not None]
    longest = [record.gap_p99_s for record in records if record.output_tokens > 1]
    return Spread(spread(means).p50, spread(longest).p95, spread(longest).p99)


def _prefix_hit(outcome: Outcome) -> float:
    started = [record for record in outcome.records if record.first_token_s is not None]
    prompts = sum(record.request.prompt_tokens for record in started)
    return sum(record.cached_tokens for record in started) / (prompts or 1)
