"""What plots are drawn on: readable on light and on dark pages.

Drawn by matplotlib (the extra `sim`), which is imported when the first plot is drawn.
"""

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK = "#7d7d7d"
"""Of axes and text: as far from white as from black."""
COLOURS = (
    "#1f8fd6", "#e0791f", "#2fa84f", "#d6455d", "#8f6fd1", "#b08a2e", "#2aa5a0", "#d35fb0"
)  # fmt: skip
REST = "#9a9a9a"
"""Of what has no colour of its own."""


class PlotsUnavailable(RuntimeError):
    """matplotlib is not installed."""


def panels(columns: int, title: str, below: str, beside: str) -> tuple["Figure", list["Axes"]]:
    """A figure of so many plots side by side, with the texts of its axes.

    Raises:
        PlotsUnavailable: without matplotlib.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise PlotsUnavailable(
            "plots need matplotlib: pip install 'tokenweir[sim]', or leave --plot out"
        ) from None
    figure = Figure(figsize=(4.6 * columns + 1.4, 4.0), layout="constrained")
    figure.suptitle(title, color=INK)
    plots = list(np.atleast_1d(figure.subplots(1, columns, sharex=True, sharey=True)))
    for at, axes in enumerate(plots):
        axes.set_xlabel(below, color=INK)
        axes.tick_params(colors=INK)
        axes.grid(alpha=0.25, color=INK)
        for spine in axes.spines.values():
            spine.set_color(INK)
        if not at:
            axes.set_ylabel(beside, color=INK)
    return figure, plots


def legend(axes: "Axes", *, reverse: bool = False) -> None:
    """Names what has been labelled, if anything has."""
    handles, labels = axes.get_legend_handles_labels()
    if handles:
        axes.legend(
            handles, labels, reverse=reverse, fontsize="small", frameon=False, labelcolor=INK
        )
