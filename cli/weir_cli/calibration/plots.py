"""Plots of a calibration."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from weir_cli.calibration.campaign import CampaignResult
from weir_cli.calibration.measurement import Measurement, seconds_of
from weir_cli.load.figures import spread_ms
from weir_sim.report.canvas import COLOURS, INK, legend, panels

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def draw_calibration(result: CampaignResult, folder: Path) -> list[Path]:
    """Draws into a folder; the files. Raises PlotsUnavailable without matplotlib."""
    files = []
    for name, figure in (
        ("goodput", _goodput(result)),
        ("latency", _latency(result)),
        ("prediction", _prediction(result)),
    ):
        file = folder / f"{name}.svg"
        figure.savefig(file, transparent=True)
        files.append(file)
    return files


def _goodput(result: CampaignResult) -> "Figure":
    figure, (axes,) = panels(1, "Goodput", "requests at once", "good answers a second")
    for colour, cell in zip(COLOURS, result.findings.cells, strict=False):
        levels = result.findings.levels
        axes.plot(
            [one.streams for one in levels],
            [one.goodput[cell.name] for one in levels],
            marker="o",
            color=colour,
            label=f"{cell.prompt}/{cell.output} tokens",
        )
    _level_axis(axes, [one.streams for one in result.findings.levels])
    legend(axes)
    return figure


def _latency(result: CampaignResult) -> "Figure":
    figure, (axes,) = panels(1, "First token, p95", "requests at once", "milliseconds")
    for colour, cell in zip(COLOURS, result.findings.cells, strict=False):
        points = sorted((at, one) for (name, at), one in result.grid.items() if name == cell.name)
        values = [_first_token_p95(one) for _, one in points]
        axes.plot(
            [level for level, _ in points],
            values,
            marker="o",
            color=colour,
            label=f"{cell.prompt}/{cell.output} tokens",
        )
    if result.targets.ttft_ms is not None:
        axes.axhline(result.targets.ttft_ms, color=COLOURS[3], linestyle=":", label="target")
    _level_axis(axes, [one.streams for one in result.findings.levels])
    axes.set_yscale("log")
    axes.tick_params(which="minor", labelcolor=INK)
    legend(axes)
    return figure


def _level_axis(axes: "Axes", levels: Sequence[int]) -> None:
    axes.set_xscale("log", base=2)
    axes.set_xticks(list(levels), [str(level) for level in levels])


def _first_token_p95(measured: Measurement) -> float:
    first = spread_ms(seconds_of(one.ttft_s for one in measured.answered), (95.0,))
    return first.at[95.0] or 0.0


def _prediction(result: CampaignResult) -> "Figure":
    figure, (axes,) = panels(1, "Held-out load", "latency and percentile", "seconds")
    names = [f"{one.latency.upper()} p{one.percentile}" for one in result.predicted]
    at = range(len(names))
    axes.bar([x - 0.2 for x in at], [one.measured_s for one in result.predicted], 0.4,
             color=COLOURS[0], label="measured")  # fmt: skip
    axes.bar([x + 0.2 for x in at], [one.predicted_s for one in result.predicted], 0.4,
             color=COLOURS[1], label="simulated")  # fmt: skip
    axes.set_xticks(list(at), names)
    legend(axes)
    return figure
