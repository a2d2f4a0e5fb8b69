"""Plots of one or several runs, readable on light and on dark pages.

Drawn by matplotlib (the extra `sim`), which is imported when the first plot is drawn.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from weir_sim.outcome import Outcome
from weir_sim.report.fairness import weights_of
from weir_sim.report.worker_load import running
from weir_sim.setup import Setup
from weir_sim.workload import Workload

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_INK = "#7d7d7d"
"""Of axes and text: as far from white as from black."""
_COLOURS = (
    "#1f8fd6", "#e0791f", "#2fa84f", "#d6455d", "#8f6fd1", "#b08a2e", "#2aa5a0", "#d35fb0"
)  # fmt: skip
_REST = "#9a9a9a"
_NAMED = len(_COLOURS)


class PlotsUnavailable(RuntimeError):
    """matplotlib is not installed."""


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


def _panels(columns: int, title: str, below: str, beside: str) -> tuple["Figure", list["Axes"]]:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise PlotsUnavailable(
            "plots need matplotlib: pip install 'tokenweir[sim]', or leave --plot out"
        ) from None
    figure = Figure(figsize=(4.6 * columns + 1.4, 4.0), layout="constrained")
    figure.suptitle(title, color=_INK)
    panels = list(np.atleast_1d(figure.subplots(1, columns, sharex=True, sharey=True)))
    for at, axes in enumerate(panels):
        axes.set_xlabel(below, color=_INK)
        axes.tick_params(colors=_INK)
        axes.grid(alpha=0.25, color=_INK)
        for spine in axes.spines.values():
            spine.set_color(_INK)
        if not at:
            axes.set_ylabel(beside, color=_INK)
    return figure, panels


def _legend(axes: "Axes", *, reverse: bool = False) -> None:
    handles, labels = axes.get_legend_handles_labels()
    if handles:
        axes.legend(
            handles, labels, reverse=reverse, fontsize="small", frameon=False, labelcolor=_INK
        )


def _service(runs: Sequence[Run]) -> "Figure":
    figure, panels = _panels(
        len(runs), "Service by tenant, divided by its weight", "time, s", "weighted tokens / weight"
    )
    for run, axes in zip(runs, panels, strict=True):
        log = run.outcome.service
        weights = weights_of(run.workload, run.setup, log.tenants)
        _by_tenant(axes, run, log.charged / np.array(weights))
        axes.set_title(run.name, color=_INK, fontsize="medium")
    _legend(panels[-1], reverse=True)
    return figure


def _queue(runs: Sequence[Run]) -> "Figure":
    figure, panels = _panels(len(runs), "Waiting requests by tenant", "time, s", "requests")
    for run, axes in zip(runs, panels, strict=True):
        _by_tenant(axes, run, run.outcome.service.waiting)
        axes.set_title(run.name, color=_INK, fontsize="medium")
    _legend(panels[-1], reverse=True)
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
            color=_COLOURS[rank] if named else _REST,
            linewidth=1.5 if named else 0.6,
            label=log.tenants[column] if named else None,
        )


def _first_token(runs: Sequence[Run]) -> "Figure":
    figure, (axes,) = _panels(1, "Time to the first token", "seconds", "share of requests")
    for colour, run in zip(_COLOURS, runs, strict=False):
        waits = sorted(r.ttft_s for r in run.outcome.records if r.ttft_s is not None)
        if waits:
            shares = np.arange(1, len(waits) + 1) / len(waits)
            axes.step(np.maximum(waits, 1e-3), shares, where="post", color=colour, label=run.name)
    axes.set_xscale("log")
    axes.set_ylim(0, 1)
    _legend(axes)
    return figure


def _workers(runs: Sequence[Run]) -> "Figure":
    figure, panels = _panels(len(runs), "Requests on each worker", "time, s", "requests")
    for run, axes in zip(runs, panels, strict=True):
        for rank, (worker_id, times, counts) in enumerate(running(run.outcome)):
            named = rank < _NAMED
            axes.step(
                times,
                counts,
                where="post",
                color=_COLOURS[rank] if named else _REST,
                linewidth=1.0 if named else 0.6,
                label=worker_id if named else None,
            )
        axes.set_title(run.name, color=_INK, fontsize="medium")
    _legend(panels[-1])
    return figure
