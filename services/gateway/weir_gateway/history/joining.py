"""Joins samples that follow each other into a longer one, and keeps them small."""

from collections.abc import Iterable, Sequence

from google.protobuf.duration_pb2 import Duration

from weir.gateway.v1.history_service_pb2 import (
    Distribution,
    HistorySample,
    OutcomeCount,
    RefusalCount,
    RequestFlow,
    WorkerSample,
    WorkerWork,
)
from weir_core.telemetry.metrics import OTHER
from weir_gateway.history.distribution import joined

MOST_FLOWS = 64

_COUNTS = ("arrivals", "prompt_tokens", "cached_prompt_tokens", "output_tokens")
_GAUGES = ("in_flight", "queued")
_DISTRIBUTIONS = [
    field.name
    for field in RequestFlow.DESCRIPTOR.fields
    if field.message_type is Distribution.DESCRIPTOR
]
_WORK_COUNTS = [field.name for field in WorkerWork.DESCRIPTOR.fields if not field.message_type]
_WORK_TIMES = [field.name for field in WorkerWork.DESCRIPTOR.fields if field.message_type]


def join(samples: Sequence[HistorySample]) -> HistorySample:
    """One sample for all, of which there is at least one; gauges are those of the newest."""
    if len(samples) == 1:
        return samples[0]
    whole = HistorySample(end_time=samples[-1].end_time, flows=_flows(samples))
    whole.duration.CopyFrom(_sum(sample.duration for sample in samples))
    read = [sample for sample in samples if sample.far_read]
    if read:
        newest = read[-1]
        whole.far_read = True
        whole.pools.extend(newest.pools)
        whole.depths.extend(newest.depths)
        whole.parts.CopyFrom(newest.parts)
        whole.limits.extend(newest.limits)
        whole.workers.extend(_workers(read))
    return whole


def fewer(flows: Sequence[RequestFlow]) -> list[RequestFlow]:
    """The busiest, and the rest of each model added up."""
    if len(flows) <= MOST_FLOWS:
        return list(flows)
    ordered = sorted(flows, key=_business, reverse=True)
    rest: dict[str, list[RequestFlow]] = {}
    for flow in ordered[MOST_FLOWS:]:
        rest.setdefault(flow.model, []).append(flow)
    added = [_flow(OTHER, model, part, gauges=part) for model, part in rest.items()]
    return [*ordered[:MOST_FLOWS], *added]


def busiest_tenants(sample: HistorySample, most: int) -> list[str]:
    """Those that had most to do with this interval."""
    sums: dict[str, int] = {}
    for flow in sample.flows:
        if flow.tenant_id not in ("", OTHER):
            sums[flow.tenant_id] = sums.get(flow.tenant_id, 0) + _business(flow)
    return sorted(sums, key=lambda tenant: -sums[tenant])[:most]


def _business(flow: RequestFlow) -> int:
    refused = sum(one.count for one in flow.refused)
    return flow.arrivals + refused + flow.in_flight + flow.prompt_tokens + flow.output_tokens


def _flows(samples: Sequence[HistorySample]) -> list[RequestFlow]:
    parts: dict[tuple[str, str], list[RequestFlow]] = {}
    newest: dict[tuple[str, str], list[RequestFlow]] = {}
    for sample in samples:
        for flow in sample.flows:
            key = (flow.tenant_id, flow.model)
            parts.setdefault(key, []).append(flow)
            if sample is samples[-1]:
                newest.setdefault(key, []).append(flow)
    return fewer([_flow(*key, part, gauges=newest.get(key, ())) for key, part in parts.items()])


def _flow(
    tenant_id: str, model: str, parts: Sequence[RequestFlow], *, gauges: Iterable[RequestFlow]
) -> RequestFlow:
    whole = RequestFlow(tenant_id=tenant_id, model=model)
    for name in _COUNTS:
        setattr(whole, name, sum(getattr(part, name) for part in parts))
    for name in _GAUGES:
        setattr(whole, name, sum(getattr(part, name) for part in gauges))
    for name in _DISTRIBUTIONS:
        getattr(whole, name).CopyFrom(joined(getattr(part, name) for part in parts))
    whole.ended.extend(_outcomes(parts))
    whole.refused.extend(_refusals(parts))
    return whole


def _outcomes(parts: Sequence[RequestFlow]) -> list[OutcomeCount]:
    counts: dict[str, int] = {}
    for part in parts:
        for one in part.ended:
            counts[one.outcome] = counts.get(one.outcome, 0) + one.count
    return [OutcomeCount(outcome=outcome, count=count) for outcome, count in counts.items()]


def _refusals(parts: Sequence[RequestFlow]) -> list[RefusalCount]:
    found: dict[tuple[str, str], RefusalCount] = {}
    for part in parts:
        for one in part.refused:
            known = found.get((one.reason, one.limit_id))
            if known is None:
                known = found[one.reason, one.limit_id] = RefusalCount()
                known.CopyFrom(one)
            else:
                known.count += one.count
    return list(found.values())


def _workers(samples: Sequence[HistorySample]) -> list[WorkerSample]:
    """As they are now, with the work of all intervals; those that have left meanwhile too."""
    views: dict[str, WorkerSample] = {}
    works: dict[str, list[WorkerWork]] = {}
    for sample in samples:
        for worker in sample.workers:
            worker_id = worker.view.registration.worker_id
            views[worker_id] = worker
            if worker.HasField("work"):
                works.setdefault(worker_id, []).append(worker.work)
    return [
        WorkerSample(view=worker.view, work=_work(works[worker_id]) if worker_id in works else None)
        for worker_id, worker in views.items()
    ]


def _work(parts: Sequence[WorkerWork]) -> WorkerWork:
    whole = WorkerWork()
    for name in _WORK_COUNTS:
        setattr(whole, name, sum(getattr(part, name) for part in parts))
    for name in _WORK_TIMES:
        known = [getattr(part, name) for part in parts if part.HasField(name)]  # type: ignore[arg-type]
        if known:
            getattr(whole, name).CopyFrom(_sum(known))
    return whole


def _sum(parts: Iterable[Duration]) -> Duration:
    whole = Duration()
    whole.FromMicroseconds(sum(part.ToMicroseconds() for part in parts))
    return whole
