"""Every kind of request at rising concurrency."""

import time
from collections.abc import Mapping

from weir_cli.calibration.cost_fit import CostFit
from weir_cli.calibration.findings import WorkerFacts, levels_of
from weir_cli.calibration.measurement import Measurement
from weir_cli.calibration.plan import CalibrationPlan, Cell
from weir_cli.calibration.predicted_times import whole_s
from weir_cli.calibration.recorder import Recorder
from weir_cli.load.goodput import Targets

Grid = Mapping[tuple[str, int], Measurement]
"""By the cell's name and requests at once."""

_HOPELESS = 0.25
_MOST = 256


class GridSweep:
    """Level by level; a kind of request that hardly keeps its targets is not pressed more.

    While goodput still rises at the last level, one of twice as many follows.

    Args:
        plan: cells and levels.
        worker: that is measured.
        fit: tells how long a wave of requests will take.
        targets: that count.
        recorder: that measures.
    """

    def __init__(
        self,
        plan: CalibrationPlan,
        worker: WorkerFacts,
        fit: CostFit,
        targets: Targets,
        recorder: Recorder,
    ) -> None:
        self._plan = plan
        self._worker = worker
        self._fit = fit
        self._targets = targets
        self._recorder = recorder
        self._grid: dict[tuple[str, int], Measurement] = {}
        self._hopeless: set[str] = set()

    async def run(self) -> Grid:
        """Measures until goodput falls, every cell is hopeless, or the time is over."""
        levels = list(self._plan.levels)
        end = time.monotonic() + self._plan.grid_s
        for at, level in enumerate(levels):  # grows meanwhile
            if at and time.monotonic() > end:
                told = f"no time is left to measure {level} requests at once and more"
                self._recorder.progress.say(told)
                break
            await self._level(level, (end - time.monotonic()) / (len(levels) - at))
            if at == len(levels) - 1 and self._goes_on(level):
                levels.append(2 * level)
        return self._grid

    async def _level(self, level: int, seconds: float) -> None:
        alive = [cell for cell in self._plan.cells if cell.name not in self._hopeless]
        for cell in alive:
            one = await self._point(cell, level, seconds / len(alive))
            self._grid[cell.name, level] = one
            if one.share_kept(self._targets) < _HOPELESS:
                self._hopeless.add(cell.name)

    def _goes_on(self, level: int) -> bool:
        if 2 * level > min(_MOST, self._worker.max_concurrent_requests):
            return False
        found = levels_of(self._grid, self._plan.cells, self._targets)
        return max(found, key=lambda one: one.score).streams == level

    async def _point(self, cell: Cell, level: int, seconds: float) -> Measurement:
        """One kind of request at one concurrency."""
        plan = self._plan
        # What was begun is waited for; some time goes into that.
        wave_s = whole_s(self._fit.served, cell, level, self._worker.max_step_tokens)
        send_s = max(0.3, seconds * 0.4, seconds - wave_s)
        expected_s = plan.grid_s / (len(plan.cells) * len(plan.levels))
        name = f"grid {cell.name} {level}"
        return await self._recorder.closed(name, cell, level, send_s, expected_s)


def largest(grid: Grid) -> dict[int, Measurement]:
    """Of each level the measurement with most KV held."""
    found: dict[int, Measurement] = {}
    for (_, level), one in grid.items():
        known = found.get(level)
        if known is None or one.memory.held_blocks > known.memory.held_blocks:
            found[level] = one
    return found
