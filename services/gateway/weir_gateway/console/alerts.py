"""What is wrong now and wants somebody, from what the parts tell of themselves."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from weir.gateway.v1.history_service_pb2 import PartsSample
from weir.scheduler.v1.scheduler_service_pb2 import PoolStatus, SloStatus, WorkerView
from weir_gateway.console.forms.slo_json import is_kept

_LAG_MS = 30_000


@dataclass(frozen=True, slots=True)
class Alert:
    """One of them.

    Attributes:
        severity: `critical`: requests fail or will; `warning`: it wants a look.
        what: for programs.
        title, text: for people.
        page: where to look; None: nowhere here.
    """

    severity: str
    what: str
    title: str
    text: str
    page: str | None = None


def alerts_json(alerts: Iterator[Alert]) -> list[dict[str, Any]]:
    """The critical ones first."""
    return [asdict(one) for one in sorted(alerts, key=lambda one: one.severity)]


def of_parts(parts: PartsSample) -> Iterator[Alert]:
    """The services that a gateway needs."""
    if parts.scheduler_error:
        yield Alert("critical", "scheduler", "The scheduler does not answer", parts.scheduler_error)
    if parts.ratelimiter_error:
        title = "The ratelimiter does not answer"
        yield Alert("critical", "ratelimiter", title, parts.ratelimiter_error)
    if parts.ratelimiter_degraded:
        text = "Its shared store is away: limits are held on a share of the rates."
        yield Alert("critical", "ratelimiter_degraded", "The ratelimiter is degraded", text)
    if parts.unheard_calls:
        text = f"{parts.unheard_calls} settlements are repeated until they are heard."
        yield Alert("warning", "unheard", "Settlements wait for the ratelimiter", text)
    ledger = parts.ledger
    if ledger.last_error:
        yield Alert("critical", "ledger", "The ledger cannot be written", ledger.last_error)
    elif ledger.outbox_events and ledger.outbox_age_ms > _LAG_MS:
        text = f"{ledger.outbox_events} events, the oldest for {ledger.outbox_age_ms / 1_000:.0f} s"
        yield Alert("warning", "ledger_lag", "The ledger is behind", text)


def of_fleet(workers: Sequence[WorkerView], pools: Sequence[PoolStatus]) -> Iterator[Alert]:
    """Workers that are gone, and pools that wait for one."""
    page = "/console/workers"
    for state in ("lost", "suspect"):
        names = [one.registration.worker_id for one in workers if one.state == state]
        if names:
            more = f" and {len(names) - 3} more" if len(names) > 3 else ""
            text = f"{', '.join(names[:3])}{more}"
            title = f"{len(names)} worker{'s' * (len(names) > 1)} {state}"
            yield Alert("warning", f"worker_{state}", title, text, page)
    for pool in pools:
        waiting = sum(queue.waiting for queue in pool.queues)
        if waiting and not pool.live_workers:
            text = f"{waiting} requests for {pool.model} wait, and no worker of the pool is live."
            yield Alert("critical", "no_worker", f"Pool {pool.pool} has no worker", text, page)


def of_targets(slos: Sequence[SloStatus]) -> Iterator[Alert]:
    """Targets that are being missed."""
    for one in slos:
        if not is_kept(one):
            worst = max(window.burn_rate for window in one.windows)
            text = (
                f"{one.objective} of {one.tenant_id}: misses come {worst:.1f} times as fast as "
                "the target allows."
            )
            yield Alert("warning", "slo", "A target is missed", text, "/console/slo")
