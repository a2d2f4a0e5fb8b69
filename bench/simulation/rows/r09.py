"""R9: how the first token's time depends on KV memory: flat, then a cliff."""

from collections.abc import Callable

import numpy as np

from bench.simulation.published import poisson, source
from bench.simulation.row import Context, Row
from weir_sim.cost.builtin import H100
from weir_sim.setup import Setup, WorkerSpec
from weir_sim.simulation import simulate
from weir_sim.workload import Workload

_RATE_RPS = 8.0
_AMPLE = 16_384
_LEAST = 1_000
_FLAT = 1.2
_OVER = 4.0
_PRECISION = 1.03
_COARSE = 1.5


class _Curve:
    """p99 TTFT of one load by KV blocks, each measured once."""

    def __init__(self, context: Context, load: Workload) -> None:
        self.points: dict[int, float] = {}
        self._context = context
        self._load = load

    def p99_s(self, blocks: int) -> float:
        if blocks not in self.points:
            self._context.progress(f"{len(self._load.requests)} requests, {blocks} blocks")
            self.points[blocks] = _p99_s(self._load, blocks)
        return self.points[blocks]

    def fewest(self, within: Callable[[float], bool]) -> int:
        """The fewest blocks, to 3 %, whose p99 is within a bound that ample memory meets."""
        low, high = _LEAST, _AMPLE // 4
        if within(self.p99_s(low)):
            return low
        while high > low * (_COARSE if self._context.quick else _PRECISION):
            middle = round((low * high) ** 0.5)
            low, high = (low, middle) if within(self.p99_s(middle)) else (middle, high)
        return high


def run(context: Context) -> Row:
    """One worker at 80 % of what it can do, with less and less KV memory."""
    requests = 40 if context.quick else 1_000
    curve = _Curve(context, poisson(context, "azure-conv", _RATE_RPS, requests))
    flat, edge, width = _cliff(curve)
    idle = _Curve(context, poisson(context, "azure-conv", _RATE_RPS / 8, requests // 8))
    ample_s = curve.p99_s(_AMPLE)
    figures = {
        "cliff_width_percent": width,
        "p99_five_percent_below_over_flat": curve.p99_s(round(flat * 0.95)) / ample_s,
        "flat_from_blocks": float(flat),
        "over_4_times_below_blocks": float(edge),
        "ample_p99_s": ample_s,
        **{f"p99_s_{blocks}_blocks": p99 for blocks, p99 in sorted(curve.points.items())},
    }
    control = {"cliff_width_percent": _cliff(idle)[2]}
    return Row(
        figures,
        control,
        f"{source(context, 'azure-conv')}, {_RATE_RPS:g} requests/s on one worker: p99 TTFT is "
        f"flat ({ample_s:.2f} s) down to {flat} blocks and over {_OVER:g} times that below {edge}, "
        f"{width:.0f} % fewer. The scheduler holds back what has no room for its prompt, so memory "
        "takes away throughput step by step: the queue grows with the share of load above it, "
        "over the minutes of the run, rather than at once as where a worker thrashes.",
    )


def _cliff(curve: _Curve) -> tuple[int, int, float]:
    """Blocks from which it is flat, blocks below which it is far off, and percent between."""
    ample_s = curve.p99_s(_AMPLE)
    flat = curve.fewest(lambda p99: p99 <= _FLAT * ample_s)
    edge = curve.fewest(lambda p99: p99 <= _OVER * ample_s)
    if flat == edge == _LEAST:
        return flat, edge, 100.0
    return flat, edge, 100.0 * (flat - edge) / flat


def _p99_s(load: Workload, blocks: int) -> float:
    spec = WorkerSpec(
        kv_blocks=blocks,
        max_batch_size=256,
        max_concurrent_requests=512,
        max_step_tokens=2_048,
    )
    outcome = simulate(load, Setup(workers=(spec,), cost=H100, report_interval_s=0.5))
    times = [record.ttft_s for record in outcome.completed if record.ttft_s is not None]
    return float(np.percentile(times, 99))
