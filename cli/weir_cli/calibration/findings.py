"""What a calibration has found out, as far as parameters depend on it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from weir.scheduler.v1.scheduler_service_pb2 import WorkerView
from weir_cli.calibration.measurement import Measurement
from weir_cli.calibration.plan import Cell
from weir_cli.calibration.settings import ChosenSettings
from weir_cli.load.goodput import Targets
from weir_sim.cost.fitted import ServedCost


@dataclass(frozen=True, slots=True)
class WorkerFacts:
    """What a worker is, as it registered.

    Attributes:
        profile: key of its parameters.
        kv_blocks, block_size: of its cache; tokens of a block.
        max_context: longest request.
        max_step_tokens: its own bound.
        max_concurrent_requests: its own bound.
    """

    profile: str
    kv_blocks: int
    block_size: int
    max_context: int
    max_step_tokens: int
    max_concurrent_requests: int


def facts_of(view: WorkerView) -> WorkerFacts:
    """A worker's facts, as the scheduler tells them."""
    told = view.registration
    return WorkerFacts(
        profile=told.profile,
        kv_blocks=told.total_kv_blocks,
        block_size=told.block_size,
        max_context=told.max_context_tokens,
        max_step_tokens=view.load.max_step_tokens or view.parameters.max_step_tokens,
        max_concurrent_requests=told.max_concurrent_requests,
    )


@dataclass(frozen=True, slots=True)
class Level:
    """One concurrency of the grid.

    Attributes:
        streams: requests at once.
        goodput: requests a second within the targets, by cell.
        score: mean over the cells of goodput over the cell's best, 0 to 1.
    """

    streams: int
    goodput: Mapping[str, float]
    score: float


@dataclass(frozen=True, slots=True)
class Findings:
    """What recommendations are made from.

    Attributes:
        worker: that was measured.
        targets: that count.
        levels: of the grid, rising.
        served: the fitted cost model.
        cells: of the grid.
        answers: of questions that the model ended itself, and the bound that they had.
        peak: memory at each level of the grid, by streams.
        standing: what was in force while all of it was measured.
    """

    worker: WorkerFacts
    targets: Targets
    levels: Sequence[Level]
    served: ServedCost
    cells: Sequence[Cell]
    answers: Measurement | None
    answer_bound: int
    peak: Mapping[int, Measurement]
    standing: ChosenSettings = field(default_factory=ChosenSettings)

    @property
    def fitted_window_ms(self) -> float:
        """The batch window that the lone requests of the probes waited for."""
        return self.standing.value("batch_wait_ms")

    @property
    def alive(self) -> tuple[Cell, ...]:
        """Cells of which some requests keep the targets at some concurrency."""
        return tuple(
            cell for cell in self.cells if any(one.goodput[cell.name] for one in self.levels)
        )


def levels_of(
    grid: Mapping[tuple[str, int], Measurement], cells: Sequence[Cell], targets: Targets
) -> list[Level]:
    """Goodput by concurrency; a level that a cell was not measured at had none there."""
    streams = sorted({level for _, level in grid})
    rates = {
        (cell.name, level): grid[cell.name, level].closed_goodput(targets, level)
        if (cell.name, level) in grid
        else 0.0
        for cell in cells
        for level in streams
    }
    best = {cell.name: max(rates[cell.name, level] for level in streams) for cell in cells}
    return [
        Level(
            level,
            {cell.name: rates[cell.name, level] for cell in cells},
            fmean(
                rates[cell.name, level] / best[cell.name] if best[cell.name] else 0.0
                for cell in cells
            ),
        )
        for level in streams
    ]
