"""R6: prefill and decode on engines of their own, or both on each in chunks."""

from dataclasses import dataclass

from bench.simulation.published import poisson, source
from bench.simulation.row import Context, Row
from weir_sim.cost.builtin import OPT_13B
from weir_sim.cost.distserve import read_distserve
from weir_sim.cost.model import CostModel
from weir_sim.outcome import Outcome, RequestRecord
from weir_sim.setup import Setup, SplitSpec, WorkerSpec
from weir_sim.simulation import simulate

_FITS = "perf-models/distserve_profiler-a100-80g.distserve.json"
_SHARE = 0.9
_ENGINES = 4
_SPLITS = (1, 2, 3)
_WINS = 1.05
_TOKENS_MOVED_S = 8e-6
"""KV of OPT-13B is 0.8 MB a token: 100 GB/s."""


@dataclass(frozen=True)
class _Targets:
    """Time to the first token, and mean time of each further one."""

    ttft_s: float
    tpot_s: float


_TIGHT = _Targets(1.5, 0.04)
_LOOSE = _Targets(6.0, 0.2)


def run(context: Context) -> Row:
    """Requests/s with nine of ten within both targets, on four engines of OPT-13B on A100."""
    cost = _cost(context)
    conv, code = (_ratio(context, cost, name, _TIGHT) for name in ("azure-conv", "azure-code"))
    loose = conv if context.quick else _ratio(context, cost, "azure-conv", _LOOSE)
    figures = {
        "split_over_together_conv_tight": conv.ratio,
        "split_over_together_code_tight": code.ratio,
        "split_over_together_conv_loose": loose.ratio,
        "conv_tight_together_rps": conv.together_rps,
        "code_tight_together_rps": code.together_rps,
        "conv_best_prefill_engines": float(conv.prefill),
        "code_best_prefill_engines": float(code.prefill),
    }
    # What the split is for, taken away: a bound on the time between tokens.
    control = {"split_over_together_conv_tight": loose.ratio}
    return Row(figures, control, _why(context, figures))


def _why(context: Context, figures: dict[str, float]) -> str:
    conv, code = source(context, "azure-conv"), source(context, "azure-code")
    return (
        f"requests/s with {_SHARE:.0%} within targets, the best split of {_ENGINES} engines over "
        f"all of them with chunks: tight targets ({_TIGHT.ttft_s:g} s, {_TIGHT.tpot_s * 1e3:g} ms) "
        f"{figures['split_over_together_conv_tight']:.2f} on {conv} and "
        f"{figures['split_over_together_code_tight']:.2f} on {code}; loose ones "
        f"{figures['split_over_together_conv_loose']:.2f} on the first.{_reason(figures)}"
    )


def _reason(figures: dict[str, float]) -> str:
    if figures["split_over_together_conv_tight"] >= _WINS:
        return ""
    return (
        " Where prompts and answers are balanced a split wins nothing here: chunks within twice "
        "the time of a decode step protect the time between tokens as well, and engines that do "
        "both are never the wrong ones; it pays where prompts outweigh answers by far."
    )


@dataclass(frozen=True)
class _Ratio:
    """Best split over all engines together."""

    together_rps: float
    split_rps: float
    prefill: int

    @property
    def ratio(self) -> float:
        return self.split_rps / self.together_rps


def _ratio(context: Context, cost: CostModel, name: str, targets: _Targets) -> _Ratio:
    together = _most_rps(context, cost, name, targets, 0)
    splits = (2,) if context.quick else _SPLITS
    rates = {prefill: _most_rps(context, cost, name, targets, prefill) for prefill in splits}
    best = max(rates, key=lambda prefill: rates[prefill])
    return _Ratio(together, rates[best], best)


def _most_rps(
    context: Context, cost: CostModel, name: str, targets: _Targets, prefill: int
) -> float:
    """The highest rate at which enough are within both targets; `prefill` 0: no split."""
    low, high = 0.2, 30.0
    for _ in range(2 if context.quick else 5):
        rate = (low * high) ** 0.5
        context.progress(f"{name}, {prefill or 'no'} prefill engines: {rate:.2f} requests/s")
        outcome = _outcome(context, cost, name, rate, prefill)
        within = sum(_meets(record, targets) for record in outcome.records)
        fits = within >= _SHARE * len(outcome.records)
        low, high = (rate, high) if fits else (low, rate)
    return low


def _meets(record: RequestRecord, targets: _Targets) -> bool:
    ttft_s, tpot_s = record.ttft_s, record.tpot_s
    return ttft_s is not None and ttft_s <= targets.ttft_s and (tpot_s or 0.0) <= targets.tpot_s


def _outcome(
    context: Context, cost: CostModel, name: str, rate_rps: float, prefill: int
) -> Outcome:
    split = SplitSpec(prefill, _ENGINES - prefill, 0.001, _TOKENS_MOVED_S) if prefill else None
    places = 64 * (_ENGINES if split else 1)
    spec = WorkerSpec(
        kv_blocks=3_000,
        max_batch_size=64,
        max_concurrent_requests=places,
        max_step_tokens=2_048 if split else 512,
        split=split,
    )
    workers = (spec,) if split else (spec,) * _ENGINES
    requests = 30 if context.quick else 200
    load = poisson(context, name, rate_rps, requests)
    return simulate(load, Setup(workers=workers, cost=cost, report_interval_s=1.0, sample_s=1e6))


def _cost(context: Context) -> CostModel:
    path = context.file(_FITS)
    return OPT_13B if path is None else read_distserve(path, "facebook/opt-13b")
