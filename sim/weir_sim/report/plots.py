"""Plots of one or several runs, readable on light and on dark pages.

Drawn by matplotlib (the extra `sim`), which is imported when the first plot is drawn.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from weir_sim.outcome import Outcome
from weir_sim.report.canvas import COLOURS, INK, REST, legend, panels
from weir_sim.report.fairness import weights_of
from weir_sim.report.worker_load import running
from weir_sim.setup import Setup
from weir_sim.workload import Workload

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_NAMED = len(COLOURS)


@dataclass(frozen=True)
class Run:
    """What is drawn of a run."""

    name: str
    workload: Workload
    setup: Setup
    outcome: Outcome


def draw(runs: Sequence[Run], folder: Path, suffix: str) -> list[Path]:
    """Draws every plot into a folder and returns the files.

    Args:
        runs: side by side, of one workload.
        folder: is made if it is missing.
        suffix: png or svg.

    Raises:
        PlotsUnavailable: without matplotlib.
    """
    folder.mkdir(parents=True, exist_ok=True)
    kinds: dict[str, Callable[[Sequence[Run]], Figure]] = {
        "service": _service,
        "first-token": _first_token,
        "queue": _queue,
        "workers": _workers,
    }
    files = []
    for name, kind in kinds.items():
        file = folder / f"{name}.{suffix}"
        kind(runs).savefig(file, transparent=True, dpi=144)
        files.append(file)
    return files


def _service(runs: Sequence[Run]) -> "Figure":
    figure, sides = panels(
        len(runs), "Service by tenant, divided by its weight", "time, s", "weighted tokens / weight"
    )
    for run, axes in zip(runs, sides, strict=True):
        log = run.outcome.service
        weights = weights_of(run.workload, run.setup, log.tenants)
        _by_tenant(axes, run, log.charged / np.array(weights))
        axes.set_title(run.name, color=INK, fontsize="medium")
    legend(sides[-1], reverse=True)
    return figure


def _queue(runs: Sequence[Run]) -> "Figure":
    figure, sides = panels(len(runs), "Waiting requests by tenant", "time, s", "requests")
    for run, axes in zip(runs, sides, strict=True):
        _by_tenant(axes, run, run.outcome.service.waiting)
        axes.set_title(run.name, color=INK, fontsize="medium")
    legend(sides[-1], reverse=True)
    return figure


def _by_tenant(axes: "Axes", run: Run, values: Any) -> None:
    """A line a tenant: colours for those served most, grey for the rest."""
    log = run.outcome.service
    order: list[int] = []
    if len(log.charged):
        order = np.argsort(-log.charged[-1], kind="stable").tolist()
    for rank, column in reversed(list(enumerate(order))):
        named = rank < _NAMED
        axes.plot(
            log.times_s,
            values[:, column],
            color=COLOURS[rank] if named else REST,
            linewidth=1.5 if named else 0.6,
            label=log.tenants[column] if named else None,
        )


def _first_token(runs: Sequence[Run]) -> "Figure":
    figure, (axes,) = panels(1, "Time to the first token", "seconds", "share of requests")
    for colour, run in zip(COLOURS, runs, strict=False):
        waits = sorted(r.ttft_s for r in run.outcome.records if r.ttft_s is not None)
        if waits:
            shares = np.arange(1, len(waits) + 1) / len(waits)
            axes.step(np.maximum(waits, 1e-3), shares, where="post", color=colour, label=run.name)
    axes.set_xscale("log")
    axes.set_ylim(0, 1)
    legend(axes)
    return figure


def _workers(runs: Sequence[Run]) -> "Figure":
    figure, sides = panels(len(runs), "Requests on each worker", "time, s", "requests")
    for run, axes in zip(runs, sides, strict=True):
        for rank, (worker_id, times, counts) in enumerate(running(run.outcome)):
            named = rank < _NAMED
            axes.step(
                times,
                counts,
                where="post",
                color=COLOURS[rank] if named else REST,
                linewidth=1.0 if named else 0.6,
                label=worker_id if named else None,
            )
        axes.set_title(run.name, color=INK, fontsize="medium")
    legend(sides[-1])
    return figure
