"""What the view shows, from the samples of the last half minute."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from weir.gateway.v1.history_service_pb2 import HistorySample, WorkerSample
from weir.ratelimiter.v1.ratelimiter_service_pb2 import LimitStatus
from weir.scheduler.v1.scheduler_service_pb2 import QueueReason
from weir_cli.doctor.statistics import quantile
from weir_cli.doctor.window import Window, seconds_of

SPAN_S = 30.0
"""Of the rates and percentiles that are shown."""


class Order(StrEnum):
    """What tenants and workers are sorted by."""

    TOKENS = "tokens"
    REQUESTS = "requests"
    WAITING = "waiting"
    REFUSED = "refused"
    NAME = "name"


@dataclass(frozen=True, slots=True)
class Totals:
    """Everything together; times are seconds, `None` where nothing ended."""

    tokens_per_s: float
    requests_per_s: float
    in_flight: int
    waiting: int
    refused_per_s: float
    failed_per_s: float
    ttft_p50: float | None
    ttft_p95: float | None


@dataclass(frozen=True, slots=True)
class PoolRow:
    """One pool of one model."""

    pool: str
    model: str
    live_workers: int
    workers: int
    waiting: int
    oldest_s: float
    reasons: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class WorkerRow:
    """One worker; blocks are of its KV cache."""

    worker_id: str
    model: str
    state: str
    running: int
    waiting: int
    tokens_per_s: float
    batch_size: float
    held: int
    pinned: int
    cached: int
    total: int
    hit_share: float | None
    device: float | None
    foreign: float | None


@dataclass(frozen=True, slots=True)
class TenantRow:
    """One tenant."""

    tenant_id: str
    tokens_per_s: float
    requests_per_s: float
    in_flight: int
    waiting: int
    refused_per_s: float
    ttft_p50: float | None
    ttft_p95: float | None
    limits: tuple[LimitStatus, ...]


class Board:
    """Holds the newest samples.

    Args:
        tenant: whose requests alone are shown; empty for all.
        order: of the rows.
    """

    def __init__(self, tenant: str = "", order: Order = Order.TOKENS) -> None:
        self.tenant = tenant
        self.order = order
        self._samples: deque[HistorySample] = deque()

    def add(self, sample: HistorySample) -> None:
        """Takes a new sample and lets go of old ones."""
        self._samples.append(sample)
        held = sum(map(seconds_of, self._samples))
        while len(self._samples) > 1 and held - seconds_of(self._samples[0]) >= SPAN_S:
            held -= seconds_of(self._samples.popleft())

    @property
    def newest(self) -> HistorySample | None:
        """The last sample."""
        return self._samples[-1] if self._samples else None

    @property
    def seconds(self) -> float:
        """That rates are over."""
        return sum(map(seconds_of, self._samples))

    @property
    def problems(self) -> list[str]:
        """What parts do not do."""
        parts = self.newest.parts if self.newest is not None else None
        if parts is None:
            return []
        told = [parts.scheduler_error, parts.ratelimiter_error]
        if parts.ratelimiter_degraded:
            told.append("the ratelimiter works without its store")
        return [one for one in told if one]

    def totals(self) -> Totals:
        """Everything that is shown, together."""
        window, now = self._window(self.tenant), self._now(self.tenant)
        first = window.values("ttft")
        seconds = window.seconds or 1.0
        failed = sum(
            one.count for flow in window.flows for one in flow.ended if one.outcome == "error"
        )
        return Totals(
            tokens_per_s=window.total("output_tokens") / seconds,
            requests_per_s=window.total("arrivals") / seconds,
            in_flight=now.total("in_flight"),
            waiting=self._waiting(self.tenant),
            refused_per_s=_refused(window) / seconds,
            failed_per_s=failed / seconds,
            ttft_p50=quantile(first, 0.5) if first.count else None,
            ttft_p95=quantile(first, 0.95) if first.count else None,
        )

    def pools(self) -> list[PoolRow]:
        """Every pool, those where most waits first."""
        newest = self.newest
        rows = [
            PoolRow(
                pool=pool.status.pool,
                model=pool.status.model,
                live_workers=pool.status.live_workers,
                workers=pool.status.workers,
                waiting=sum(queue.waiting for queue in pool.status.queues),
                oldest_s=pool.signals.oldest_wait.ToMicroseconds() / 1e6,
                reasons=self._reasons(newest, pool.status.model, pool.status.pool),
            )
            for pool in (newest.pools if newest is not None else ())
        ]
        return sorted(rows, key=lambda row: (-row.waiting, row.model, row.pool))

    def workers(self) -> list[WorkerRow]:
        """Every worker that is known."""
        newest = self.newest
        rows = [_worker(one) for one in (newest.workers if newest is not None else ())]
        keys: dict[Order, Callable[[WorkerRow], float]] = {
            Order.TOKENS: lambda row: row.tokens_per_s,
            Order.REQUESTS: lambda row: row.running,
            Order.WAITING: lambda row: row.waiting,
        }
        size = keys.get(self.order, _nothing)
        return sorted(rows, key=lambda row: (-size(row), row.worker_id))

    def tenants(self) -> list[TenantRow]:
        """Every tenant that had requests, or the one that is asked for."""
        everybody = self._window("")
        names = [self.tenant] if self.tenant else everybody.tenants()
        rows = [self._tenant(name) for name in names]
        keys: dict[Order, Callable[[TenantRow], float]] = {
            Order.TOKENS: lambda row: row.tokens_per_s,
            Order.REQUESTS: lambda row: row.requests_per_s,
            Order.WAITING: lambda row: row.waiting,
            Order.REFUSED: lambda row: row.refused_per_s,
        }
        size = keys.get(self.order, _nothing)
        return sorted(rows, key=lambda row: (-size(row), row.tenant_id))

    def _tenant(self, name: str) -> TenantRow:
        window, now = self._window(name), self._now(name)
        first, seconds = window.values("ttft"), window.seconds or 1.0
        newest = self.newest
        limits = [one for one in (newest.limits if newest else ()) if one.tenant_id == name]
        return TenantRow(
            tenant_id=name,
            tokens_per_s=window.total("output_tokens") / seconds,
            requests_per_s=window.total("arrivals") / seconds,
            in_flight=now.total("in_flight"),
            waiting=self._waiting(name),
            refused_per_s=_refused(window) / seconds,
            ttft_p50=quantile(first, 0.5) if first.count else None,
            ttft_p95=quantile(first, 0.95) if first.count else None,
            limits=tuple(limits[0].limits) if limits else (),
        )

    def _window(self, tenant: str) -> Window:
        return Window(list(self._samples), tenant=tenant)

    def _now(self, tenant: str) -> Window:
        return Window([self._samples[-1]] if self._samples else [], tenant=tenant)

    def _waiting(self, tenant: str) -> int:
        depths = self.newest.depths if self.newest is not None else ()
        return sum(one.waiting for one in depths if tenant in ("", one.tenant_id))

    def _reasons(
        self, sample: HistorySample | None, model: str, pool: str
    ) -> tuple[tuple[str, int], ...]:
        counts: dict[str, int] = {}
        for one in sample.depths if sample is not None else ():
            if (one.model, one.pool) == (model, pool) and self.tenant in ("", one.tenant_id):
                name = QueueReason.Name(one.reason).removeprefix("QUEUE_REASON_").lower()
                counts[name] = counts.get(name, 0) + one.waiting
        return tuple(sorted(counts.items(), key=lambda count: -count[1]))


def _worker(sample: WorkerSample) -> WorkerRow:
    view, work = sample.view, sample.work
    load, seconds = view.load, work.duration.ToMicroseconds() / 1e6
    device, foreign = load.device_utilisation_millis, load.foreign_utilisation_millis
    return WorkerRow(
        worker_id=view.registration.worker_id,
        model=view.registration.model,
        state=view.state,
        running=load.running_requests,
        waiting=load.waiting_requests,
        tokens_per_s=work.decode_tokens / seconds if seconds else 0.0,
        batch_size=work.decode_tokens / work.steps if work.steps else 0.0,
        held=load.held_kv_blocks - load.pinned_kv_blocks,
        pinned=load.pinned_kv_blocks,
        cached=load.cached_kv_blocks,
        total=view.registration.total_kv_blocks,
        hit_share=work.prefix_hits / work.prefix_queries if work.prefix_queries else None,
        device=device / 1_000 if device >= 0 else None,
        foreign=foreign / 1_000 if foreign >= 0 else None,
    )


def _refused(window: Window) -> int:
    return sum(one.count for flow in window.flows for one in flow.refused)


def _nothing(_: object) -> float:
    return 0.0
