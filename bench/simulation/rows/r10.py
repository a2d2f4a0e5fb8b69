"""R10: shortest job first with published predictors, with and without aging."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from bench.simulation.row import Context, NotMeasured, Row
from weir_scheduler.rules.ordering_parameters import OrderingParameters
from weir_scheduler.rules.queue_rules import QueueRules
from weir_scheduler.rules.rules import Isolation, PoolRules
from weir_sim.cost.linear import LinearCost
from weir_sim.setup import Setup, WorkerSpec
from weir_sim.simulation import simulate
from weir_sim.traces.named import FORMATS
from weir_sim.traces.trace_format import ReadSpan
from weir_sim.traces.trace_row import TraceRow
from weir_sim.workload import SimRequest, Workload

_TWO = "ssjf/predictions_warmup_cls_1000K.slim.csv.gz"
_FIVE = "ssjf/predictions_warmup_multi_cls_1000K.slim.csv.gz"
_SLOTS = 16
_UNIT = 8
"""Tokens that one simulated step stands for: a step costs time to simulate."""
_STEP_S = _UNIT * 0.025
_REQUESTS = 8_000
_LOADS = (0.9, 0.97, 1.05)
_JUDGED = 0.97
_AGING_US = 1_000_000
"""Waiting time that makes up for one unit of work: 125 ms a token."""
_PROMOTE_US = 80_000_000
"""Age from which every fourth dispatch may go to the oldest: 18 mean service times."""
_NEVER_US = 10**13


@dataclass(frozen=True)
class _Waits:
    """Waits in the queue, in mean service times."""

    mean: float
    p99: float
    longest: float


def run(context: Context) -> Row:
    """Sixteen slots, Poisson arrivals, lengths and predicted classes of the SSJF data."""
    two_file, five_file = context.file(_TWO), context.file(_FIVE)
    if two_file is None or five_file is None:
        raise NotMeasured("needs the SSJF predictions under $TRACES")
    ssjf = FORMATS["ssjf"]
    stride = 57 if context.quick else 8
    two = list(ssjf.read(two_file, ReadSpan()))[::stride][:_REQUESTS]
    five = list(ssjf.read(five_file, ReadSpan()))[::stride][:_REQUESTS]
    figures: dict[str, float] = {}
    for load in _LOADS if not context.quick else (_JUDGED,):
        # Beside the judged load a quarter of the requests will do.
        part = slice(None) if load == _JUDGED else slice(_REQUESTS // 4)
        figures |= _at_load(context, load, two[part], five[part])
    judged = f"{_JUDGED}."
    aged, unaged = "two_class_aging", "two_class"
    relations = _relations(figures, judged, aged)
    without = _relations(figures, judged, unaged)
    relations["two_class_part_of_oracle"] = without["part_of_oracle"]
    return Row(
        relations | figures,
        {name: value for name, value in without.items() if "over_fcfs" in name},
        f"load {_JUDGED}: two classes get {without['part_of_oracle']:.0%} of what the oracle "
        f"gains on the mean wait, {relations['part_of_oracle']:.0%} with aging; with it the "
        f"longest wait is "
        f"{relations['max_wait_over_fcfs']:.1f} times that of first come first served; without "
        f"aging (control) "
        f"{figures[judged + 'two_class.longest'] / figures[judged + 'fcfs.longest']:.0f} times",
    )


def _relations(figures: dict[str, float], at: str, policy: str) -> dict[str, float]:
    fcfs, oracle = figures[at + "fcfs.mean"], figures[at + "oracle.mean"]
    return {
        "part_of_oracle": (fcfs - figures[f"{at}{policy}.mean"]) / (fcfs - oracle),
        "max_wait_over_fcfs": figures[f"{at}{policy}.longest"] / figures[at + "fcfs.longest"],
        "p99_over_fcfs": figures[f"{at}{policy}.p99"] / figures[at + "fcfs.p99"],
    }


def _at_load(
    context: Context, load: float, two: Sequence[TraceRow], five: Sequence[TraceRow]
) -> dict[str, float]:
    shortest = _pool("shortest_remaining", aging=False)
    aging = _pool("shortest_remaining", aging=True)
    runs: dict[str, tuple[Sequence[TraceRow], Callable[[TraceRow], int], PoolRules]] = {
        "fcfs": (two, _true, _pool("fifo", aging=False)),
        "oracle": (two, _true, shortest),
        "two_class": (two, _predicted, shortest),
        "two_class_aging": (two, _predicted, aging),
        "five_class": (five, _predicted, shortest),
        "five_class_aging": (five, _predicted, aging),
    }
    if load != _JUDGED:
        del runs["five_class"], runs["five_class_aging"]
    figures = {}
    for name, (rows, size, pool) in runs.items():
        context.progress(f"load {load}, {name}")
        waits = _waits(_workload(rows, load, size), pool)
        for field in ("mean", "p99", "longest"):
            figures[f"{load}.{name}.{field}"] = round(getattr(waits, field), 4)
    return figures


def _pool(policy: str, *, aging: bool) -> PoolRules:
    parameters = (
        OrderingParameters(aging_us_per_token=_AGING_US, promote_after_us=_PROMOTE_US)
        if aging
        else OrderingParameters(aging_us_per_token=0, promote_after_us=_NEVER_US)
    )
    return PoolRules("slots", Isolation.SHARED, policy, queue=QueueRules(ordering=parameters))


def _true(row: TraceRow) -> int:
    return _units(row.output_tokens)


def _predicted(row: TraceRow) -> int:
    return _units(row.predicted_output or row.output_tokens)


def _units(tokens: int) -> int:
    return -(-tokens // _UNIT)


def _workload(rows: Sequence[TraceRow], load: float, size: Callable[[TraceRow], int]) -> Workload:
    outputs = [_units(row.output_tokens) for row in rows]
    # A slot that frees when a step ends is taken up by the step after the next begins.
    rate = load * _SLOTS / ((float(np.mean(outputs)) + 1) * _STEP_S)
    moments = np.cumsum(np.random.default_rng(10).exponential(1 / rate, len(rows)))
    requests = tuple(
        SimRequest(
            request_id=f"r{index}",
            arrival_s=float(moment),
            tenant_id="all",
            prompt_tokens=1,
            output_tokens=output,
            max_new_tokens=1_000,
            predicted_output=size(row),
        )
        for index, (row, output, moment) in enumerate(zip(rows, outputs, moments, strict=True))
    )
    return Workload(f"ssjf at {load}", requests)


def _waits(workload: Workload, pool: PoolRules) -> _Waits:
    worker = WorkerSpec(
        kv_blocks=100_000, max_batch_size=_SLOTS, max_concurrent_requests=_SLOTS, cache_blocks=0
    )
    setup = Setup(
        workers=(worker,),
        cost=LinearCost(_STEP_S, 0.0, 0.0, 0.0, 0.0),
        pool=pool,
        sample_s=1_000.0,
        report_interval_s=1.0,
    )
    outcome = simulate(workload, setup)
    service_s = float(np.mean([one.output_tokens for one in workload.requests])) * _STEP_S
    waits = np.array([r.wait_s for r in outcome.records if r.wait_s is not None]) / service_s
    return _Waits(float(waits.mean()), float(np.quantile(waits, 0.99)), float(waits.max()))
