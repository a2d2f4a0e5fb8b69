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
    size = LoadSize(max(_LEAST_REQUESTS, requests))
    return drawn_plan(Arrivals(rate), lengths, ("calibration",), size, seed)
