"""Batch size, order of the queue, step tokens and batch window: by the simulator."""

from dataclasses import dataclass
from typing import Any

from weir_cli.calibration.findings import Findings
from weir_cli.calibration.settings import ChosenSettings, default_of
from weir_cli.calibration.trials import Trial, Trials

FIFO, SHORTEST = "fifo", "shortest_remaining"
WORTH = 0.05
"""Of goodput, that another order of the queue must gain: it lets long requests wait."""
_HALVINGS = 2
_LEAST_STEP = 64


@dataclass(frozen=True, slots=True)
class Search:
    """What was chosen, and all that it was compared with.

    Attributes:
        chosen: the best settings, or those in force where they are better.
        standing: those in force.
        sizes, policies, steps, windows: what each value comes to, the others as chosen.
        kept: whether the values in force were better than everything else together.
    """

    chosen: Trial
    standing: Trial
    sizes: dict[float, Trial]
    policies: dict[str, Trial]
    steps: dict[float, Trial]
    windows: dict[float, Trial]
    kept: bool = False

    def as_json(self) -> dict[str, Any]:
        """For a program: rates in requests a second, None below all that were tried."""
        return {
            "rates": list(self.chosen.rates),
            "chosen": self.chosen.capacity,
            "standing": self.standing.capacity,
            "chosen_goodput": self.chosen.goodput,
            "standing_goodput": self.standing.goodput,
        }


def search(found: Findings, base: ChosenSettings, trials: Trials) -> Search | None:
    """One value after the other; of those that are alike the built-in one, then the larger.

    Priority is never tried: it is for loads that have priorities, which no measurement knows.

    Args:
        found: levels and values in force.
        base: every value that is not searched for.
        trials: tries them.

    Returns:
        None where no load keeps the targets.
    """
    sizes, steps = _sizes(found), _steps(found)
    base = base.but(max_step_tokens=_built_in_step(found))
    if not trials.scale([found.standing, *(base.but(max_batch_size=size) for size in sizes[-2:])]):
        return None
    standing = trials.of(found.standing)
    order = found.standing.policy or FIFO
    of_size = {
        policy: {size: trials.of(base.but(policy, max_batch_size=size)) for size in sizes}
        for policy in dict.fromkeys((order, FIFO, SHORTEST))
    }
    best = {policy: _best(tried, default_of("max_batch_size")) for policy, tried in of_size.items()}
    policy = _order(best, order)
    size = best[policy].settings.value("max_batch_size")
    base = base.but(policy, max_batch_size=size)
    by_step = {step: trials.of(base.but(max_step_tokens=step)) for step in steps}
    base = _best(by_step, _built_in_step(found)).settings
    windows = {wait: trials.of(base.but(batch_wait_ms=wait)) for wait in _windows(found)}
    chosen = _window(windows)
    kept = chosen.lead(standing) < 0
    return Search(
        standing if kept else chosen, standing, of_size[policy],
        {name: of_size[name][size] for name in of_size}, by_step, windows, kept,
    )  # fmt: skip


def _sizes(found: Findings) -> list[float]:
    """The measured levels, the built-in value and that in force: what the worker can have."""
    most = min(found.worker.max_concurrent_requests, found.worker.max_step_tokens)
    wanted = {float(one.streams) for one in found.levels}
    wanted |= {default_of("max_batch_size"), found.standing.value("max_batch_size")}
    return sorted({min(size, float(most)) for size in wanted})


def _steps(found: Findings) -> list[float]:
    """The worker's own bound and its halves, the built-in value and that in force."""
    own = found.worker.max_step_tokens
    wanted = {own // 2**halving for halving in range(1 + _HALVINGS)}
    least = min(own, max(_LEAST_STEP, *(2 * one.streams for one in found.levels)))
    wanted = {step for step in wanted if step >= least}
    standing = min(own, found.standing.value("max_step_tokens"))
    return sorted({*map(float, wanted), _built_in_step(found), float(standing)})


def _built_in_step(found: Findings) -> float:
    return float(min(found.worker.max_step_tokens, default_of("max_step_tokens")))


def _windows(found: Findings) -> list[float]:
    return sorted({0.0, default_of("batch_wait_ms"), found.standing.value("batch_wait_ms")})


def _best(tried: dict[float, Trial], built_in: float) -> Trial:
    """The most goodput; of those that are alike the built-in value, then the larger one."""
    best = max(tried.values(), key=lambda one: one.goodput)
    alike = [value for value, one in tried.items() if one.lead(best) >= 0]
    return tried[built_in if built_in in alike else max(alike)]


def _order(best: dict[str, Trial], standing: str) -> str:
    """That in force, unless another is worth it."""
    found = max(best, key=lambda name: best[name].lead(best[standing]))
    return found if best[found].lead(best[standing]) > WORTH else standing


def _window(windows: dict[float, Trial]) -> Trial:
    """Of those that are alike in goodput the one with the shortest time to the first token."""
    best = max(windows.values(), key=lambda one: one.goodput)
    alike = [one for one in windows.values() if one.lead(best) >= 0]
    return min(alike, key=lambda one: one.ttft_s)
