"""What a calibration measures, in order; what is in the journal is not measured again."""

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from weir_cli.calibration.advice import Recommendation
from weir_cli.calibration.comparison import Comparison, Verdict, comparison
from weir_cli.calibration.cost_fit import CostFit, fit_cost
from weir_cli.calibration.findings import Findings, WorkerFacts, levels_of
from weir_cli.calibration.journal import Journal
from weir_cli.calibration.measurement import Measurement
from weir_cli.calibration.meter import Meter
from weir_cli.calibration.plan import CalibrationPlan, Cell
from weir_cli.calibration.policy_advice import advise_policy
from weir_cli.calibration.prediction import Agreement, agreements, as_served, simulated
from weir_cli.calibration.progress import CalibrationProgress
from weir_cli.calibration.recommendation import lone_ttft_s, recommend
from weir_cli.calibration.settings import ChosenSettings
from weir_cli.calibration.site import Site
from weir_cli.load.arrivals import Arrivals
from weir_cli.load.goodput import Targets
from weir_cli.load.lengths import Law, Lengths
from weir_cli.load.load_plan import LoadSize, drawn_plan
from weir_cli.load.load_request import LoadRequest

_ALONE = 5
_ANSWER_BOUND = 128
_OVERLOAD, _UNDERLOAD = 1.1, 0.6
_HOPELESS = 0.25
_TARGET_TIMES = 4.0
_SENDING = 0.8
"""Of the time of an open load; the rest is for its last answers."""


@dataclass(frozen=True)
class CampaignResult:
    """What a calibration came to.

    Attributes:
        worker: that was measured.
        targets: that counted.
        fit: of the cost model.
        findings: what was recommended from.
        grid: by cell and streams.
        recommendation: all values.
        compared: None where nothing could be changed, or no target can be kept.
        kept: values that are in force in the end: the recommended ones, or the built-in ones.
        predicted: the simulator against the held-out load.
    """

    worker: WorkerFacts
    targets: Targets
    fit: CostFit
    findings: Findings
    grid: Mapping[tuple[str, int], Measurement]
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
        site: where.
        worker: its kind.
        workers: how many.
        plan: what.
        targets: None: four times what a lone request takes.
        journal: of what is known already.
        meter: that measures.
        progress: told of every part.
    """

    def __init__(
        self,
        site: Site,
        worker: WorkerFacts,
        workers: int,
        plan: CalibrationPlan,
        targets: Targets | None,
        journal: Journal,
        meter: Meter,
        progress: CalibrationProgress,
    ) -> None:
        self._site = site
        self._worker = worker
        self._workers = workers
        self._plan = plan
        self._targets = targets
        self._journal = journal
        self._meter = meter
        self._progress = progress
        self._in_force: ChosenSettings | None = None
        self._cells = plan.cells

    async def run(self) -> CampaignResult:
        """Measures, recommends, compares, predicts. Raises CommandError."""
        fit = fit_cost(await self._probe(), self._worker.max_step_tokens)
        targets = self._targets or self._derived(fit)
        answers = await self._kept(
            "answers", self._plan.probe_s / 4, lambda: self._meter.natural("answers", _ANSWER_BOUND)
        )
        grid = await self._measure_grid(fit, targets)
        findings = Findings(
            worker=self._worker,
            targets=targets,
            levels=levels_of(grid, self._plan.cells, targets),
            served=fit.served,
            cells=self._plan.cells,
            answers=answers,
            answer_bound=_ANSWER_BOUND,
            peak=_largest(grid),
        )
        rate = findings.mixed_rate
        self._cells = findings.alive or self._plan.cells
        policy = advise_policy(findings, self._mix(rate * _OVERLOAD, 60.0, seed=5), self._workers)
        recommendation = recommend(findings, policy)
        compared = await self._compare(rate * _OVERLOAD, recommendation.chosen, targets)
        kept = recommendation.chosen
        if compared is None or compared.verdict is Verdict.WORSE:
            kept = self._site.standing
        predicted = await self._predict(fit, kept, rate)
        return CampaignResult(
            self._worker, targets, fit, findings, grid, recommendation, compared, kept, predicted
        )

    async def _probe(self) -> list[Measurement]:
        """Lone prompts, and batches that decode."""
        plan = self._plan
        short, long = plan.inputs
        answer = plan.outputs[1]
        shapes = [(f"prompt {tokens}", Cell("", tokens, 1), 1, _ALONE) for tokens in plan.prompts]
        shapes += [(f"decode {n}", Cell("", short, answer), n, n) for n in plan.levels]
        shapes += [(f"context {n}", Cell("", long, answer), n, n) for n in (plan.levels[0], 4)]
        each_s = plan.probe_s * 0.75 / len(shapes)
        return [
            await self._kept(name, each_s, self._closed(name, cell, streams, requests))
            for name, cell, streams, requests in shapes
        ]

    def _closed(
        self, name: str, cell: Cell, streams: int, requests: int
    ) -> Callable[[], Awaitable[Measurement]]:
        return lambda: self._meter.closed(name, cell, streams, requests=requests)

    def _derived(self, fit: CostFit) -> Targets:
        """Four times what the long request takes alone, for the first token and between tokens."""
        long, cost = self._plan.inputs[1], fit.served.cost
        first_s = lone_ttft_s(fit.served, long, self._worker.max_step_tokens)
        token_s = cost.step_s(0, 0, 1, long)
        return Targets(
            ttft_ms=_rounded_ms(first_s * _TARGET_TIMES),
            itl_ms=_rounded_ms(token_s * _TARGET_TIMES),
        )

    async def _measure_grid(
        self, fit: CostFit, targets: Targets
    ) -> dict[tuple[str, int], Measurement]:
        """Level by level; a kind of request that hardly keeps its targets is not pressed more."""
        plan = self._plan
        grid: dict[tuple[str, int], Measurement] = {}
        end = time.monotonic() + plan.grid_s
        hopeless: set[str] = set()
        for at, level in enumerate(plan.levels):
            if at and time.monotonic() > end:
                self._progress.say(f"no time is left to measure {level} requests at once and more")
                break
            cells = [cell for cell in plan.cells if cell.name not in hopeless]
            left = len(cells) * (len(plan.levels) - at)
            for cell in cells:
                each_s = max(0.3, (end - time.monotonic()) / max(1, left))
                left -= 1
                name = f"grid {cell.name} {level}"
                send_s = max(each_s * 0.4, each_s - self._whole_s(fit, cell, level))
                one = await self._kept(
                    name,
                    plan.grid_s / (len(plan.cells) * len(plan.levels)),
                    self._timed(name, cell, level, send_s),
                )
                grid[cell.name, level] = one
                if one.share_kept(targets) < _HOPELESS:
                    hopeless.add(cell.name)
        return grid

    def _timed(
        self, name: str, cell: Cell, level: int, seconds: float
    ) -> Callable[[], Awaitable[Measurement]]:
        return lambda: self._meter.closed(name, cell, level, seconds=seconds)

    def _whole_s(self, fit: CostFit, cell: Cell, level: int) -> float:
        """Predicted time of a wave of requests."""
        first_s = lone_ttft_s(fit.served, cell.prompt * level, self._worker.max_step_tokens)
        step_s = fit.served.cost.step_s(0, 0, level, level * (cell.prompt + cell.output))
        return first_s + cell.output * step_s

    async def _compare(
        self, rate: float, chosen: ChosenSettings, targets: Targets
    ) -> Comparison | None:
        """Both on the same load, in turn, the first of a round being the other each time."""
        if not self._site.changeable or not rate:
            return None
        turns: dict[str, list[Measurement]] = {"default": [], "recommended": []}
        settings = {"default": self._site.standing, "recommended": chosen}
        seconds = self._plan.turn_s
        for number in range(self._plan.rounds):
            load = self._mix(rate, seconds * _SENDING, seed=100 + number)
            for which in sorted(turns, reverse=bool(number % 2)):
                name = f"{which} {number + 1}"
                turns[which].append(
                    await self._kept(name, seconds, self._offered(name, load), settings[which])
                )
        return comparison(rate, turns["default"], turns["recommended"], targets)

    async def _predict(self, fit: CostFit, kept: ChosenSettings, rate: float) -> list[Agreement]:
        """A load that nothing was fitted to, several times, and the simulator's answer to it."""
        seconds = self._plan.held_out_s
        wanted = (rate or self._lone_rate(fit)) * _UNDERLOAD
        load = self._mix(wanted, seconds * _SENDING, seed=1_000)
        runs = [
            await self._kept(name, seconds, self._offered(name, load), kept)
            for name in (f"held-out {number + 1}" for number in range(self._plan.rounds))
        ]
        outcome = simulated(load, fit.served, self._worker, kept, self._workers)
        return agreements(runs, as_served(outcome))

    def _lone_rate(self, fit: CostFit) -> float:
        """Requests a second of one stream; where no target is ever kept."""
        times = [self._whole_s(fit, cell, 1) for cell in self._plan.cells]
        return len(times) / sum(times)

    def _offered(
        self, name: str, load: Sequence[LoadRequest]
    ) -> Callable[[], Awaitable[Measurement]]:
        return lambda: self._meter.offered(name, load)

    def _mix(self, rate: float, seconds: float, seed: int) -> tuple[LoadRequest, ...]:
        """Poisson arrivals of the cells that live, in equal numbers; at least a few requests."""
        if not rate:
            return ()
        lengths = [
            (Lengths(Law.FIXED, cell.prompt), Lengths(Law.FIXED, cell.output))
            for cell in self._cells
        ]
        count = max(8, round(rate * seconds))
        return drawn_plan(Arrivals(rate), lengths, ("calibration",), LoadSize(count), seed)

    async def _kept(
        self,
        name: str,
        expected_s: float,
        measure: Callable[[], Awaitable[Measurement]],
        settings: ChosenSettings | None = None,
    ) -> Measurement:
        """What the journal has under this name, or the measurement, which it has from then on."""
        known = self._journal.measured.get(name)
        if known is not None:
            self._progress.credit(expected_s)
            return known
        with self._progress.part(name, expected_s):
            await self._put_in_force(settings or self._site.standing)
            measured = await measure()
            self._journal.add(measured)
        return measured

    async def _put_in_force(self, settings: ChosenSettings) -> None:
        if self._site.changeable and settings != self._in_force:
            await self._site.apply(settings)
            self._in_force = settings


def _largest(grid: Mapping[tuple[str, int], Measurement]) -> dict[int, Measurement]:
    """Of each level the measurement with most KV held."""
    largest: dict[int, Measurement] = {}
    for (_, level), one in grid.items():
        known = largest.get(level)
        if known is None or one.memory.held_blocks > known.memory.held_blocks:
            largest[level] = one
    return largest


def _rounded_ms(seconds: float) -> float:
    return max(1.0, float(f"{seconds * 1e3:.2g}"))
