"""Measurements: made up, and what a machine of two processors once came to."""

from weir_cli.calibration.findings import Findings, Level, WorkerFacts, levels_of
from weir_cli.calibration.measurement import Measurement, MemoryPeak, Served
from weir_cli.calibration.plan import Cell
from weir_cli.calibration.settings import ChosenSettings
from weir_cli.load.goodput import Targets
from weir_sim.cost.fitted import ServedCost
from weir_sim.cost.linear import LinearCost

WORKER = WorkerFacts(
    profile="cpu-2c-int8-tokenweir-tp1",
    kv_blocks=1_456,
    block_size=16,
    max_context=8_192,
    max_step_tokens=512,
    max_concurrent_requests=256,
)
TARGETS = Targets(ttft_ms=2_000, itl_ms=100)
CELLS = (Cell("short-short", 64, 16), Cell("long-long", 512, 64))
SERVED = ServedCost(LinearCost(0.012, 7e-4, 0.0, 2e-3, 1e-6), 0.01)
_KNEE = 8


RECORDED = ServedCost(LinearCost(7.395e-3, 3.151e-4, 0.0, 4.546e-4, 1.438e-6), 6.6e-3)
"""Of the default model on two processors, as `weir calibrate` fitted it."""
RECORDED_TARGETS = Targets(ttft_ms=700, itl_ms=34)


def grid(levels: tuple[int, ...] = (1, 2, 4, 8, 16)) -> dict[tuple[str, int], Measurement]:
    """By cell and streams."""
    return {(cell.name, level): _measured(cell, level) for cell in CELLS for level in levels}


def _measured(cell: Cell, level: int) -> Measurement:
    tpot = 0.02 + 0.005 * level if level <= _KNEE else 0.2
    e2e = 0.2 + cell.output * tpot
    served = Served(0.0, cell.prompt, cell.output, 0.2, tpot, e2e)
    blocks = level * -(-(cell.prompt + cell.output) // WORKER.block_size)
    memory = MemoryPeak(blocks, blocks * WORKER.block_size * 1_000, 10**9)
    return Measurement(f"grid {cell.name} {level}", 10.0, (served,) * 20, memory=memory)


def findings(answers: float | None = 0.5) -> Findings:
    """What the grid shows; `answers` is the part of their bound that natural answers use."""
    measured = grid()
    natural = None
    if answers is not None:
        one = Served(0.0, 20, round(128 * answers), 0.2, 0.02, 1.0)
        natural = Measurement("answers", 5.0, (one,) * 8)
    return Findings(
        worker=WORKER,
        targets=TARGETS,
        levels=levels_of(measured, CELLS, TARGETS),
        served=SERVED,
        cells=CELLS,
        answers=natural,
        answer_bound=128,
        peak={level: measured["long-long", level] for level in (1, 2, 4, 8, 16)},
    )


def recorded(standing: ChosenSettings, levels: tuple[int, ...] = (1, 2, 8, 16)) -> Findings:
    """The machine of two processors, with these values in force."""
    cells = tuple(Cell(f"{p}-{o}", p, o) for p in (64, 512) for o in (16, 64))
    kept = {cell.name: 1.0 for cell in cells}
    return Findings(
        worker=WORKER,
        targets=RECORDED_TARGETS,
        levels=[Level(level, kept, 1.0) for level in levels],
        served=RECORDED,
        cells=cells,
        answers=None,
        answer_bound=128,
        peak={8: _measured(CELLS[1], 8)},
        standing=standing,
    )
