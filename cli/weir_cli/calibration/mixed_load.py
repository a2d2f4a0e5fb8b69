"""Open loads of all kinds of request."""

from collections.abc import Sequence

from weir_cli.calibration.plan import Cell
from weir_cli.load.arrivals import Arrivals
from weir_cli.load.lengths import Law, Lengths
from weir_cli.load.load_plan import LoadSize, drawn_plan
from weir_cli.load.load_request import LoadRequest

_LEAST_REQUESTS = 8


def mixed(cells: Sequence[Cell], rate: float, requests: int, seed: int) -> tuple[LoadRequest, ...]:
    """Poisson arrivals of cells in equal numbers; at least a few requests."""
    lengths = [(Lengths(Law.FIXED, cell.prompt), Lengths(Law.FIXED, cell.output)) for cell in cells]
    return _drawn(lengths, rate, requests, seed)


def spread(cells: Sequence[Cell], rate: float, requests: int, seed: int) -> tuple[LoadRequest, ...]:
    """Poisson arrivals of all lengths from the shortest to the longest of the cells.

    Their median tells something: that of short and long requests alone lies in the gap between
    the two, where one request more or less moves it by the width of the gap.
    """
    prompts, outputs = [cell.prompt for cell in cells], [cell.output for cell in cells]
    lengths = (_uniform(prompts), _uniform(outputs))
    return _drawn([lengths], rate, requests, seed)


def _uniform(lengths: Sequence[int]) -> Lengths:
    return Lengths(Law.UNIFORM, min(lengths), max(lengths))


def _drawn(
    lengths: Sequence[tuple[Lengths, Lengths]], rate: float, requests: int, seed: int
) -> tuple[LoadRequest, ...]:
    size = LoadSize(max(_LEAST_REQUESTS, requests))
    return drawn_plan(Arrivals(rate), lengths, ("calibration",), size, seed)
