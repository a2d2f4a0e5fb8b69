"""What requests did lately, and over time, as the overview gets it."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from weir.gateway.v1.history_service_pb2 import HistorySample, RequestFlow
from weir_gateway.console.forms.moments import moment
from weir_gateway.console.forms.quantile import quantile, spread_json
from weir_gateway.history.distribution import joined
from weir_gateway.history.joining import join

WINDOW_S = 60
_MOST = 20


def traffic_json(samples: Sequence[HistorySample]) -> dict[str, Any]:
    """The last minute: of all, of each model and of each tenant, the busiest first."""
    whole = join(samples) if samples else HistorySample()
    flows, seconds = list(whole.flows), whole.duration.ToMicroseconds() / 1e6
    return {
        "window_s": WINDOW_S,
        **_flow_json(flows, seconds),
        "models": _groups(flows, seconds, "model", lambda flow: flow.model),
        "tenants": _groups(flows, seconds, "tenant", lambda flow: flow.tenant_id),
        "refusals": _counted(
            ((one.limit_id or one.reason, one.count) for flow in flows for one in flow.refused),
            "limit",
        ),
        "outcomes": _counted(
            ((one.outcome, one.count) for flow in flows for one in flow.ended), "outcome"
        ),
    }


def series_json(samples: Sequence[HistorySample], *, fleet: bool) -> dict[str, Any]:
    """What changed over time; with `fleet` that of queues and workers too."""
    points = [_point(sample, fleet=fleet) for sample in samples]
    names = points[0] if points else ()
    return {
        "times": [moment(sample, "end_time") for sample in samples],
        "series": {name: [point[name] for point in points] for name in names},
    }


def _flow_json(flows: Sequence[RequestFlow], seconds: float) -> dict[str, Any]:
    def per_s(count: Callable[[RequestFlow], int]) -> float | None:
        return sum(map(count, flows)) / seconds if seconds else None

    return {
        "in_flight": sum(flow.in_flight for flow in flows),
        "requests_per_s": per_s(lambda flow: flow.arrivals),
        "ended_per_s": per_s(lambda flow: sum(one.count for one in flow.ended)),
        "refused_per_s": per_s(_refused),
        "prompt_tokens_per_s": per_s(lambda flow: flow.prompt_tokens),
        "cached_tokens_per_s": per_s(lambda flow: flow.cached_prompt_tokens),
        "output_tokens_per_s": per_s(lambda flow: flow.output_tokens),
        "ttft": spread_json(joined(flow.ttft for flow in flows)),
        "queue_time": spread_json(joined(flow.queue_time for flow in flows)),
        "output_speed_p50": quantile(joined(flow.speed for flow in flows), 0.5),
    }


def _refused(flow: RequestFlow) -> int:
    return sum(one.count for one in flow.refused)


def _groups(
    flows: Iterable[RequestFlow], seconds: float, name: str, of: Callable[[RequestFlow], str]
) -> list[dict[str, Any]]:
    parts: dict[str, list[RequestFlow]] = {}
    for flow in flows:
        if of(flow):
            parts.setdefault(of(flow), []).append(flow)
    told = [{name: key, **_flow_json(part, seconds)} for key, part in parts.items()]
    told.sort(key=lambda one: (-_business(one), one[name]))
    return told[:_MOST]


def _business(one: dict[str, Any]) -> float:
    rates = (one["requests_per_s"], one["refused_per_s"], one["output_tokens_per_s"])
    return float(one["in_flight"] + sum(rate or 0.0 for rate in rates))


def _counted(pairs: Iterable[tuple[str, int]], name: str) -> list[dict[str, Any]]:
    counts: dict[str, int] = {}
    for key, count in pairs:
        counts[key] = counts.get(key, 0) + count
    ordered = sorted(counts, key=lambda key: (-counts[key], key))[:_MOST]
    return [{name: key, "count": counts[key]} for key in ordered]


def _point(sample: HistorySample, *, fleet: bool) -> dict[str, float | None]:
    told = _flow_json(list(sample.flows), sample.duration.ToMicroseconds() / 1e6)
    point = {
        name: told[name]
        for name in (
            "requests_per_s",
            "refused_per_s",
            "output_tokens_per_s",
            "prompt_tokens_per_s",
            "cached_tokens_per_s",
            "in_flight",
        )
    }
    point |= {"ttft_p50_s": told["ttft"]["p50_s"], "ttft_p95_s": told["ttft"]["p95_s"]}
    known = sample.far_read and not sample.parts.scheduler_error
    point["waiting"] = sum(depth.waiting for depth in sample.depths) if known else None
    return point | _fleet(sample, known=known) if fleet else point


def _fleet(sample: HistorySample, *, known: bool) -> dict[str, float | None]:
    if not known:
        return {"oldest_wait_s": None, "kv_use": None, "running": None}
    waits = [pool.signals.oldest_wait.ToMicroseconds() / 1e6 for pool in sample.pools]
    views = [worker.view for worker in sample.workers if worker.view.state != "lost"]
    blocks = sum(view.registration.total_kv_blocks for view in views)
    held = sum(view.load.held_kv_blocks for view in views)
    return {
        "oldest_wait_s": max(waits, default=0.0),
        "kv_use": held / blocks if blocks else None,
        "running": sum(view.running_attempts for view in views),
    }
