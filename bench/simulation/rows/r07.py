"""R7: placement by cached prefixes on the Mooncake traces, eight workers."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from bench.simulation.baselines.placers import PLACERS
from bench.simulation.machine import first_tokens
from bench.simulation.row import Context, Row
from weir_sim.cost.linear import LinearCost
from weir_sim.generator.presets import PRESETS
from weir_sim.generator.workload_of_preset import workload_of_preset
from weir_sim.setup import PlacerFactory, Setup, WorkerSpec
from weir_sim.simulation import simulate
from weir_sim.traces.workload_of import workload_of_file
from weir_sim.traces.workload_options import WorkloadOptions
from weir_sim.workload import Workload

_FILES = {
    "conversation": "mooncake-fast25/conversation_trace.jsonl",
    "synthetic": "mooncake-fast25/synthetic_trace.jsonl",
}
_WORKERS = 8
_PROMPT_TOKENS_S = 8_000
_CACHE_BLOCKS = 4_000
_STEP_TOKENS = 4_096
_REQUESTS = 2_000
_COLLAPSING = 400
"""Of these the longest prefix is measured: a queue that only grows is slow to simulate."""
_PIECE = 512


@dataclass(frozen=True)
class _Measured:
    """Prefix hits, times to the first token, and the busiest worker over the mean."""

    hit: float
    mean_s: float
    p50_s: float
    p90_s: float
    p99_s: float
    busiest: float


def run(context: Context) -> Row:
    """The first 2,000 requests of each trace; prompts alone, answers take nobody's time."""
    results = {name: _trace(context, name) for name in _FILES}
    conversation, synthetic = results["conversation"], results["synthetic"]
    ours, least = conversation["ours"], conversation["least"]
    context.progress("conversation, longest prefix")
    few = _workload(context, "conversation", _COLLAPSING)
    collapse = {name: _measure(few, PLACERS[name]) for name in ("max_prefix", "least")}
    longest = collapse["max_prefix"]
    figures = {
        **_relations(conversation["ours"], conversation, ""),
        **_relations(synthetic["ours"], synthetic, "synthetic_"),
        **_all(results | {f"conversation_{_COLLAPSING}": collapse}),
    }
    control = {
        **_relations(longest, collapse, ""),
        **_relations(synthetic["random"], synthetic, "synthetic_"),
    }
    source = (
        "published traces"
        if context.file(_FILES["conversation"])
        else "generated loads (no $TRACES)"
    )
    return Row(
        figures,
        control,
        f"first {_REQUESTS} requests of the {source}, conversation: hits {ours.hit:.1%}, mean "
        f"first token {ours.mean_s:.2f} s, "
        f"busiest worker {ours.busiest:.2f} times the mean; least loaded {least.hit:.1%}, "
        f"{least.mean_s:.2f} s; longest prefix, first {_COLLAPSING} requests, collapses: "
        f"{longest.mean_s:.0f} s and {longest.busiest:.2f} times the mean (control; on synthetic: "
        f"random)",
    )


def _relations(one: _Measured, others: Mapping[str, _Measured], prefix: str) -> dict[str, float]:
    least = others["least"]
    relations = {
        f"{prefix}hit_over_least": one.hit / least.hit,
        f"{prefix}ttft_over_least": one.mean_s / least.mean_s,
    }
    return relations if prefix else {"busiest_over_mean": one.busiest, **relations}


def _all(results: Mapping[str, Mapping[str, _Measured]]) -> dict[str, float]:
    return {
        f"{trace}.{policy}.{field}": round(getattr(measured, field), 4)
        for trace, of_trace in results.items()
        for policy, measured in of_trace.items()
        for field in ("hit", "mean_s", "p50_s", "p90_s", "p99_s", "busiest")
    }


def _trace(context: Context, name: str) -> dict[str, _Measured]:
    workload = _workload(context, name, _REQUESTS)
    placers: dict[str, PlacerFactory | None] = {"ours": None, **PLACERS}
    del placers["max_prefix"]
    measured = {}
    for policy, placer in placers.items():
        context.progress(f"{name}, {policy}")
        measured[policy] = _measure(workload, placer)
    return measured


def _workload(context: Context, name: str, requests: int) -> Workload:
    options = WorkloadOptions(limit=200 if context.quick else requests)
    file = context.file(_FILES[name])
    workload = (
        workload_of_file(file, options)
        if file is not None
        else workload_of_preset(PRESETS[f"mooncake-{name}"], options)
    )
    prompts = (replace(one, output_tokens=1) for one in workload.requests)
    return replace(workload, requests=tuple(prompts))


def _setup(placer: PlacerFactory | None) -> Setup:
    worker = WorkerSpec(
        kv_blocks=2 * _CACHE_BLOCKS,
        block_size=_PIECE,
        cache_blocks=_CACHE_BLOCKS,
        max_batch_size=4_096,
        max_concurrent_requests=4_096,
        max_batch_tokens=10**12,
        max_step_tokens=_STEP_TOKENS,
    )
    cost = LinearCost(1e-3, 1 / _PROMPT_TOKENS_S, 0.0, 0.0, 0.0)
    return Setup(workers=(worker,) * _WORKERS, cost=cost, placer=placer, sample_s=60.0)


def _measure(workload: Workload, placer: PlacerFactory | None) -> _Measured:
    outcome = simulate(workload, _setup(placer))
    waits = first_tokens(outcome)
    prompts = sum(request.prompt_tokens for request in workload.requests)
    work = [worker.prefill_tokens for worker in outcome.workers]
    p50, p90, p99 = (float(value) for value in np.quantile(waits, (0.5, 0.9, 0.99)))
    return _Measured(
        hit=sum(record.cached_tokens for record in outcome.records) / prompts,
        mean_s=float(waits.mean()),
        p50_s=p50,
        p90_s=p90,
        p99_s=p99,
        busiest=max(work) / float(np.mean(work)),
    )
