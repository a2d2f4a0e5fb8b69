"""What a calibration measures and concludes, in order."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from weir_cli.calibration.advice import Recommendation
from weir_cli.calibration.comparison import Comparison, Verdict, comparison
from weir_cli.calibration.cost_fit import CostFit, fit_cost
from weir_cli.calibration.findings import Findings, WorkerFacts, levels_of
from weir_cli.calibration.grid_sweep import Grid, GridSweep, largest
from weir_cli.calibration.measurement import Measurement
from weir_cli.calibration.mixed_load import mixed, spread
from weir_cli.calibration.plan import CalibrationPlan, Cell
from weir_cli.calibration.predicted_times import lone_ttft_s, whole_s
from weir_cli.calibration.prediction import Agreement, agreements, as_served, simulated
from weir_cli.calibration.recommendation import recommend, unsearched
from weir_cli.calibration.recorder import Recorder
from weir_cli.calibration.settings import ChosenSettings
from weir_cli.calibration.settings_search import Search, search
from weir_cli.calibration.trials import Trials
from weir_cli.load.goodput import Targets

_ALONE = 5
_ANSWER_BOUND = 128
_COMPARED = (0.6, 0.8, 0.8, 0.6)
"""Of what the better settings carry in the simulator, by round: each once begun by either.

Machines carry less than their simulation, and beyond what they carry luck decides.
"""
_UNDERLOAD = 0.7
_TARGET_TIMES = 4.0
_SENDING = 0.75
"""Of the time of an open load; the rest is for other values to arrive, and its last answers."""


@dataclass(frozen=True)
class CampaignResult:
    """What a calibration came to.

    Attributes:
        worker: that was measured.
        targets: that counted.
        fit: of the cost model.
        findings: what was recommended from.
        grid: all levels.
        search: the simulator's choice; None where no load keeps the targets.
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
    search: Search | None
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
        searched = await self._search(findings)
        recommended = recommend(findings, searched)
        compared = await self._compare(findings, searched, recommended)
        kept = recommended.chosen
        if compared is None or compared.verdict is Verdict.WORSE:
            kept = self._recorder.site.standing
        rate = _UNDERLOAD * (_carried(searched) if searched else self._lone_rate(fit))
        predicted = await self._predict(findings, kept, rate)
        return CampaignResult(
            self._worker, findings.targets, fit, findings, grid, searched, recommended, compared,
            kept, predicted,
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
            standing=recorder.site.standing,
        )

    async def _search(self, found: Findings) -> Search | None:
        """The simulator's choice; beside the loop, which has a stack to keep up."""
        trials = Trials(found, self._plan.simulated_requests)
        with self._recorder.progress.part("simulated", self._plan.search_s):
            return await asyncio.to_thread(search, found, unsearched(found), trials)

    async def _compare(
        self, found: Findings, searched: Search | None, recommended: Recommendation
    ) -> Comparison | None:
        """Both on the same loads, in turn, the first of a round being the other each time."""
        site = self._recorder.site
        if not site.changeable or searched is None:
            return None
        settings = {"default": site.standing, "recommended": recommended.chosen}
        turns: dict[str, list[Measurement]] = {name: [] for name in settings}
        seconds = self._plan.turn_s
        rates = [
            _carried(searched) * _COMPARED[at % len(_COMPARED)] for at in range(self._plan.rounds)
        ]
        for number, rate in enumerate(rates):
            load = mixed(found.alive, rate, round(rate * seconds * _SENDING), seed=100 + number)
            for which in sorted(turns, reverse=bool(number % 2)):
                name = f"{which} {number + 1}"
                one = await self._recorder.offered(name, load, settings[which], seconds)
                turns[which].append(one)
        return comparison(rates, turns["default"], turns["recommended"], found.targets)

    async def _predict(self, found: Findings, kept: ChosenSettings, rate: float) -> list[Agreement]:
        """A load that nothing was fitted to, several times, and the simulator's answer to it."""
        seconds = self._plan.held_out_s
        cells = found.alive or found.cells
        load = spread(cells, rate, round(rate * seconds * _SENDING), seed=1_000)
        runs = [
            await self._recorder.offered(f"held-out {number + 1}", load, kept, seconds)
            for number in range(self._plan.held_out_runs)
        ]
        outcome = simulated(load, found.served, self._worker, kept, found.fitted_window_ms)
        return agreements(runs, as_served(outcome))

    def _lone_rate(self, fit: CostFit) -> float:
        """Requests a second of one stream; where no target is ever kept."""
        rows = self._worker.max_step_tokens
        times = [whole_s(fit.served, cell, 1, rows) for cell in self._plan.cells]
        return len(times) / sum(times)


def _carried(searched: Search) -> float:
    """Requests a second that the better of both settings carries, by the simulator."""
    known = [one.capacity for one in (searched.chosen, searched.standing)]
    return max((one for one in known if one is not None), default=searched.chosen.rates[0])


def _rounded_ms(seconds: float) -> float:
    return max(1.0, float(f"{seconds * 1e3:.2g}"))
