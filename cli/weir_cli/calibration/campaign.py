"""What a calibration measures and concludes, in order."""

from collections.abc import Sequence
from dataclasses import dataclass

from weir_cli.calibration.advice import Recommendation
from weir_cli.calibration.comparison import Comparison, Verdict, comparison
from weir_cli.calibration.cost_fit import CostFit, fit_cost
from weir_cli.calibration.findings import Findings, WorkerFacts, levels_of
from weir_cli.calibration.grid_sweep import Grid, GridSweep, largest, whole_s
from weir_cli.calibration.measurement import Measurement
from weir_cli.calibration.plan import CalibrationPlan, Cell
from weir_cli.calibration.policy_advice import advise_policy
from weir_cli.calibration.prediction import Agreement, agreements, as_served, simulated
from weir_cli.calibration.recommendation import lone_ttft_s, recommend
from weir_cli.calibration.recorder import Recorder
from weir_cli.calibration.settings import ChosenSettings
from weir_cli.load.arrivals import Arrivals
from weir_cli.load.goodput import Targets
from weir_cli.load.lengths import Law, Lengths
from weir_cli.load.load_plan import LoadSize, drawn_plan
from weir_cli.load.load_request import LoadRequest

_ALONE = 5
_ANSWER_BOUND = 128
_OVERLOAD, _UNDERLOAD = 1.1, 0.6
_TARGET_TIMES = 4.0
_SENDING = 0.8
"""Of the time of an open load; the rest is for its last answers."""
_LEAST_REQUESTS = 8


@dataclass(frozen=True)
class CampaignResult:
    """What a calibration came to.

    Attributes:
        worker: that was measured.
        targets: that counted.
        fit: of the cost model.
        findings: what was recommended from.
        grid: all levels.
        recommendation: all values.
        compared: None where nothing could be changed, or no target can be kept.
        kept: values that are in force in the end: the recommended ones, or those of before.
        predicted: the simulator against the held-out load.
    """

    worker: WorkerFacts
    targets: Targets
    fit: CostFit
    findings: Findings
    grid: Grid
    recommendation: Recommendation
    compared: Comparison | None
    kept: ChosenSettings
    predicted: Sequence[Agreement]

    @property
    def verdict(self) -> Verdict:
        """Of the comparison."""
        return self.compared.verdict if self.compared is not None else Verdict.UNKNOWN


class Campaign:
    """Runs the plan.

    Args:
        worker: its kind.
        plan: what.
        targets: None: four times what a lone request takes.
        recorder: that measures.
    """

    def __init__(
        self,
        worker: WorkerFacts,
        plan: CalibrationPlan,
        targets: Targets | None,
        recorder: Recorder,
    ) -> None:
        self._worker = worker
        self._plan = plan
        self._targets = targets
        self._recorder = recorder

    async def run(self) -> CampaignResult:
        """Measures, recommends, compares, predicts. Raises CommandError."""
        fit = fit_cost(await self._probe(), self._worker.max_step_tokens)
        found = await self._find(fit, self._targets or self._derived(fit))
        grid, findings = found
        rate = findings.mixed_rate
        cells = findings.alive or self._plan.cells
        load = _mix(cells, rate * _OVERLOAD, 60.0, seed=5) if rate else ()
        recommended = recommend(findings, advise_policy(findings, load))
        compared = await self._compare(cells, rate * _OVERLOAD, recommended, findings.targets)
        kept = recommended.chosen
        if compared is None or compared.verdict is Verdict.WORSE:
            kept = self._recorder.site.standing
        predicted = await self._predict(cells, fit, kept, rate or self._lone_rate(fit))
        return CampaignResult(
            self._worker, findings.targets, fit, findings, grid, recommended, compared, kept,
            predicted,
        )  # fmt: skip

    async def _probe(self) -> list[Measurement]:
        """Lone prompts, and batches that decode."""
        plan, measure = self._plan, self._recorder
        short, long = plan.inputs
        batches = [("decode", short, streams) for streams in plan.levels]
        batches += [("context", long, plan.levels[0]), ("context", long, 4)]
        each_s = plan.probe_s * 0.75 / (len(plan.prompts) + len(batches))
        probes = [
            await measure.row(f"prompt {tokens}", Cell("", tokens, 1), 1, _ALONE, each_s)
            for tokens in plan.prompts
        ]
        return probes + [
            await measure.wave(
                f"{name} {streams}", Cell("", prompt, plan.outputs[1]), streams, each_s
            )
            for name, prompt, streams in batches
        ]

    def _derived(self, fit: CostFit) -> Targets:
        """Four times what the long request takes alone, for the first token and between tokens."""
        long, cost = self._plan.inputs[1], fit.served.cost
        first_s = lone_ttft_s(fit.served, long, self._worker.max_step_tokens)
        token_s = cost.step_s(0, 0, 1, long)
        return Targets(
            ttft_ms=_rounded_ms(first_s * _TARGET_TIMES),
            itl_ms=_rounded_ms(token_s * _TARGET_TIMES),
        )

    async def _find(self, fit: CostFit, targets: Targets) -> tuple[Grid, Findings]:
        plan, recorder = self._plan, self._recorder
        answers = await recorder.answers("answers", _ANSWER_BOUND, plan.probe_s / 4)
        grid = await GridSweep(plan, self._worker, fit, targets, recorder).run()
        return grid, Findings(
            worker=self._worker,
            targets=targets,
            levels=levels_of(grid, plan.cells, targets),
            served=fit.served,
            cells=plan.cells,
            answers=answers,
            answer_bound=_ANSWER_BOUND,
            peak=largest(grid),
        )

    async def _compare(
        self,
        cells: Sequence[Cell],
        rate: float,
        recommended: Recommendation,
        targets: Targets,
    ) -> Comparison | None:
        """Both on the same load, in turn, the first of a round being the other each time."""
        site = self._recorder.site
        if not site.changeable or not rate:
            return None
        settings = {"default": site.standing, "recommended": recommended.chosen}
        turns: dict[str, list[Measurement]] = {name: [] for name in settings}
        seconds = self._plan.turn_s
        for number in range(self._plan.rounds):
            load = _mix(cells, rate, seconds * _SENDING, seed=100 + number)
            for which in sorted(turns, reverse=bool(number % 2)):
                name = f"{which} {number + 1}"
                one = await self._recorder.offered(name, load, settings[which], seconds)
                turns[which].append(one)
        return comparison(rate, turns["default"], turns["recommended"], targets)

    async def _predict(
        self, cells: Sequence[Cell], fit: CostFit, kept: ChosenSettings, rate: float
    ) -> list[Agreement]:
        """A load that nothing was fitted to, several times, and the simulator's answer to it."""
        seconds = self._plan.held_out_s
        load = _mix(cells, rate * _UNDERLOAD, seconds * _SENDING, seed=1_000)
        runs = [
            await self._recorder.offered(f"held-out {number + 1}", load, kept, seconds)
            for number in range(self._plan.rounds)
        ]
        outcome = simulated(load, fit.served, self._worker, kept)
        return agreements(runs, as_served(outcome))

    def _lone_rate(self, fit: CostFit) -> float:
        """Requests a second of one stream; where no target is ever kept."""
        rows = self._worker.max_step_tokens
        times = [whole_s(fit, cell, 1, rows) for cell in self._plan.cells]
        return len(times) / sum(times)


def _mix(cells: Sequence[Cell], rate: float, seconds: float, seed: int) -> tuple[LoadRequest, ...]:
    """Poisson arrivals of cells in equal numbers; at least a few requests."""
    lengths = [(Lengths(Law.FIXED, cell.prompt), Lengths(Law.FIXED, cell.output)) for cell in cells]
    count = max(_LEAST_REQUESTS, round(rate * seconds))
    return drawn_plan(Arrivals(rate), lengths, ("calibration",), LoadSize(count), seed)


def _rounded_ms(seconds: float) -> float:
    return max(1.0, float(f"{seconds * 1e3:.2g}"))
