"""Plots of a load, in the style of the simulator's: to be read on light and on dark pages."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from weir_cli.load.exchange import Exchange
from weir_cli.load.open_loop import Offered
from weir_sim.report.canvas import COLOURS, legend, panels

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_load(offered: Offered, folder: Path, suffix: str) -> list[Path]:
    """Draws into a folder; the files. Raises PlotsUnavailable without matplotlib."""
    done = [one for one in offered.exchanges if one.failure is None]
    files = []
    for name, figure in (
        ("latency", _distributions(done)),
        ("over-time", _over_time(offered, done)),
    ):
        file = folder / f"{name}.{suffix}"
        figure.savefig(file, transparent=True, dpi=144)
        files.append(file)
    return files


def _distributions(done: Sequence[Exchange]) -> "Figure":
    figure, (axes,) = panels(1, "Latency", "seconds", "share of requests")
    shown = {
        "TTFT": [one.ttft_s for one in done if one.ttft_s is not None],
        "TPOT": [one.tpot_s for one in done if one.tpot_s is not None],
        "E2E": [one.e2e_s for one in done],
    }
    for colour, (name, values) in zip(COLOURS, shown.items(), strict=False):
        if values:
            shares = np.arange(1, len(values) + 1) / len(values)
            axes.step(
                np.maximum(np.sort(values), 1e-4), shares, where="post", color=colour, label=name
            )
    axes.set_xscale("log")
    axes.set_ylim(0, 1)
    legend(axes)
    return figure


def _over_time(offered: Offered, done: Sequence[Exchange]) -> "Figure":
    figure, (axes,) = panels(1, "By the moment of sending", "time, s", "seconds")
    at = [one.intended_s - offered.begin_s for one in done]
    axes.scatter(at, [one.e2e_s for one in done], s=9, color=COLOURS[0], label="E2E")
    axes.scatter(at, [one.ttft_s or 0 for one in done], s=9, color=COLOURS[1], label="TTFT")
    failed = [one for one in offered.exchanges if one.failure is not None]
    if failed:
        when = [one.intended_s - offered.begin_s for one in failed]
        axes.scatter(when, [one.e2e_s for one in failed], s=14, marker="x", color=COLOURS[3],
                     label="not answered")  # fmt: skip
    axes.set_yscale("log")
    legend(axes)
    return figure
