"""A limiter in front of the scheduler: the account's own decisions on the virtual clock."""

from weir_core.bucket import BucketShape
from weir_core.clock import Clock
from weir_ratelimiter.domain.admission import ReserveCommand, admit, evaluate
from weir_ratelimiter.domain.change import Change
from weir_ratelimiter.domain.demand import demand
from weir_ratelimiter.domain.limit import Kind, Layer, Limit, Resource
from weir_ratelimiter.domain.settlement import Report, refund, settle
from weir_ratelimiter.domain.subject import Subject
from weir_ratelimiter.domain.usage import Quality, Usage
from weir_ratelimiter.store.memory_state import MemoryState
from weir_scheduler.workers.worker_report import AttemptUsage
from weir_sim.setup import TenantLimits
from weir_sim.workload import SimRequest

_MINUTE_MS = 60_000
_HORIZON_MS = 60_000
_MOST_ENDED = 1_000
# Nothing crashes here: a reservation lasts until it is settled.
_TTL_MS = 366 * 86_400_000
_COMPLETED, _NOT_RUN = 1, 2


class SimLimiter:
    """Reserves prompt and longest answer on arrival, and settles what was used.

    Args:
        limits: by tenant; `*` for those that are not named; others have none.
        clock: wall time of the run.
    """

    def __init__(self, limits: dict[str, TenantLimits], clock: Clock) -> None:
        self._of_tenant = limits
        self._clock = clock
        self._state = MemoryState(horizon_ms=_HORIZON_MS, most_ended=_MOST_ENDED)
        self._limits: dict[str, tuple[Limit, ...]] = {}

    def refuses(self, request: SimRequest) -> str | None:
        """Reserves for a request; the type of the limit that refuses, or None."""
        now_ms = self._clock.now_ms()
        output = request.most_new_tokens
        command = ReserveCommand(
            id=request.request_id,
            request_id=request.request_id,
            subject=Subject(request.tenant_id, "", "", request.model),
            fingerprint=b"",
            limits=self._for(request.tenant_id),
            amounts=demand(request.prompt_tokens, output, output, streams=True),
            prompt_tokens=request.prompt_tokens,
            output_tokens=output,
            max_new_tokens=output,
            ttl_ms=_TTL_MS,
            price_version=0,
        )
        evaluation = evaluate(command, self._state, now_ms)
        if evaluation.shortfalls:
            return evaluation.shortfalls[0].limit.limit_type
        reservation = admit(command, evaluation, now_ms)
        self._state.apply(Change(now_ms, evaluation.moves, reservation, counts=evaluation.counts))
        return None

    def ended(self, request_id: str, usage: AttemptUsage | None) -> None:
        """Settles a request that ran, and gives back all of one that did not."""
        reservation = self._state.open.get(request_id)
        if reservation is None:
            return
        now_ms = self._clock.now_ms()
        limits = {limit.key: limit for limit in self._for(reservation.subject.tenant_id)}
        if usage is None:
            ending = refund(reservation, _NOT_RUN, b"", limits, self._state, now_ms)
        else:
            used = Usage(usage.prompt_tokens, usage.cached_prompt_tokens, usage.completion_tokens)
            report = Report(used, Quality.EXACT, _COMPLETED)
            ending = settle(reservation, report, limits, self._state, now_ms)
        self._state.apply(ending.change)

    def _for(self, tenant_id: str) -> tuple[Limit, ...]:
        known = self._limits.get(tenant_id)
        if known is None:
            spec = self._of_tenant.get(tenant_id, self._of_tenant.get("*"))
            known = self._limits[tenant_id] = () if spec is None else _limits(tenant_id, spec)
        return known


def _limits(tenant_id: str, spec: TenantLimits) -> tuple[Limit, ...]:
    rates = (
        ("rpm", Resource.REQUESTS, spec.requests_per_minute),
        ("tpm", Resource.TOKENS, spec.tokens_per_minute),
    )
    limits = [
        _limit(tenant_id, name, Kind.BUCKET, resource, BucketShape.of(rate, rate, _MINUTE_MS))
        for name, resource, rate in rates
        if rate
    ]
    if spec.concurrency:
        shape = BucketShape.of(spec.concurrency, 0, 1)
        limits.append(_limit(tenant_id, "concurrency", Kind.LEASE, Resource.CONCURRENCY, shape))
    return tuple(limits)


def _limit(tenant_id: str, name: str, kind: Kind, resource: Resource, shape: BucketShape) -> Limit:
    return Limit(
        key=f"tenant:{tenant_id}/{name}",
        layer=Layer.TENANT,
        kind=kind,
        resource=resource,
        shape=shape,
        knob=name,
        overdraws=kind is Kind.BUCKET,
    )
