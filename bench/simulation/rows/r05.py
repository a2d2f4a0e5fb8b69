"""R5: batching without stalls: time between tokens, and the rate that a bound on it allows."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench.simulation.published import poisson, source
from bench.simulation.row import Context, Row
from weir_sim.cost.builtin import H100_70B
from weir_sim.cost.model import CostModel
from weir_sim.cost.splitwise import read_splitwise
from weir_sim.outcome import Outcome
from weir_sim.setup import Batching, Setup, WorkerSpec
from weir_sim.simulation import simulate

_TABLE = "perf-models/splitwise_perf_model.csv"
_CHUNK = 512
_BATCH = 128
_TBT_S = 0.1
"""The strict bound: about three decode steps."""
_WAIT_S = 2.0
_LOW_RPS = 0.5
_HIGH_RPS = 12.0


@dataclass(frozen=True)
class _Rule:
    """One way to fill steps, and what it may compute in one."""

    batching: Batching
    step_tokens: int


_CHUNKED = _Rule(Batching.CHUNKED, _CHUNK)
_PREFILL_FIRST = _Rule(Batching.PREFILL_FIRST, 4_096)
_WHOLE_PROMPTS = _Rule(Batching.DECODE_FIRST, 4_096)
_STATIC = _Rule(Batching.STATIC, 4_096)


def run(context: Context) -> Row:
    """Llama-2-70B on 8 H100; conversations and long prompts."""
    cost = _cost(context)
    rates = {
        name: {rule: _capacity_rps(context, cost, name, rule) for rule in rules}
        for name, rules in _compared(context).items()
    }
    conv, arxiv = rates["azure-conv"], rates["arxiv"]
    limit_s = cost.step_s(_CHUNK, _CHUNK * 4_096, _BATCH, _BATCH * 1_500)
    low_s = {rule: _ttft_s(_outcome(context, cost, "azure-conv", rule, _LOW_RPS))
             for rule in (_CHUNKED, _PREFILL_FIRST)}  # fmt: skip
    figures = {
        "p99_tbt_over_limit": _tbt_s(context, cost, _CHUNKED, conv[_CHUNKED]) / limit_s,
        "capacity_over_prefill_first": conv[_CHUNKED] / conv[_PREFILL_FIRST],
        "arxiv_capacity_over_prefill_first": arxiv[_CHUNKED] / arxiv[_PREFILL_FIRST],
        "low_load_ttft_over_prefill_first": low_s[_CHUNKED] / low_s[_PREFILL_FIRST],
        "limit_s": limit_s,
        **{f"rate_{rule.batching}": rate for rule, rate in conv.items()},
        **{f"arxiv_rate_{rule.batching}": rate for rule, rate in arxiv.items()},
    }
    control = {
        "p99_tbt_over_limit": _tbt_s(context, cost, _WHOLE_PROMPTS, conv[_CHUNKED]) / limit_s,
        "capacity_over_prefill_first": conv[_WHOLE_PROMPTS] / conv[_PREFILL_FIRST],
    }
    return Row(figures, control, _why(context, figures, control))


def _why(context: Context, figures: dict[str, float], control: dict[str, float]) -> str:
    return (
        f"{source(context, 'azure-conv')}: with chunks p99 between tokens is "
        f"{figures['p99_tbt_over_limit']:.2f} of what the budget of a step implies (whole prompts "
        f"beside decodes: {control['p99_tbt_over_limit']:.2f}); the rate within {_TBT_S * 1e3:.0f} "
        f"ms is {figures['capacity_over_prefill_first']:.1f} times that of prefill first "
        f"({figures['arxiv_capacity_over_prefill_first']:.1f} on {source(context, 'arxiv')}); at "
        f"{_LOW_RPS:g} requests/s the first token takes "
        f"{figures['low_load_ttft_over_prefill_first']:.2f} times as long."
    )


def _compared(context: Context) -> dict[str, tuple[_Rule, ...]]:
    few = (_CHUNKED, _PREFILL_FIRST)
    if context.quick:
        return {"azure-conv": (*few, _WHOLE_PROMPTS), "arxiv": few}
    return {"azure-conv": (*few, _WHOLE_PROMPTS, _STATIC), "arxiv": few}


def _cost(context: Context) -> CostModel:
    path = context.file(_TABLE)
    return H100_70B if path is None else read_splitwise(path)


def _capacity_rps(context: Context, cost: CostModel, name: str, rule: _Rule) -> float:
    """The highest rate with p99 between tokens and the median wait within their bounds."""
    low, high = 0.05, _HIGH_RPS
    for _ in range(2 if context.quick else 6):
        middle = (low * high) ** 0.5
        context.progress(f"{name}, {rule.batching}: {middle:.2f} requests/s")
        outcome = _outcome(context, cost, name, rule, middle)
        waits = [record.wait_s or 0.0 for record in outcome.completed]
        fits = _p99(outcome.gaps_s) <= _TBT_S and float(np.median(waits)) <= _WAIT_S
        low, high = (middle, high) if fits else (low, middle)
    return low


def _outcome(context: Context, cost: CostModel, name: str, rule: _Rule, rate_rps: float) -> Outcome:
    spec = WorkerSpec(
        kv_blocks=20_000,
        max_batch_size=_BATCH,
        max_concurrent_requests=_BATCH,
        max_step_tokens=rule.step_tokens,
        batching=rule.batching,
    )
    plan = Setup(workers=(spec,), cost=cost, report_interval_s=1.0, keep_gaps=True, sample_s=1e6)
    return simulate(poisson(context, name, rate_rps, 30 if context.quick else 250), plan)


def _tbt_s(context: Context, cost: CostModel, rule: _Rule, rate_rps: float) -> float:
    return _p99(_outcome(context, cost, "azure-conv", rule, rate_rps).gaps_s)


def _p99(gaps_s: NDArray[np.float64] | None) -> float:
    assert gaps_s is not None, "the setup keeps them"
    return float(np.percentile(gaps_s, 99))


def _ttft_s(outcome: Outcome) -> float:
    return float(np.median([record.ttft_s or 0.0 for record in outcome.completed]))
