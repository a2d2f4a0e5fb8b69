"""What a variant costs more than nothing seen, from turns that were measured beside each other."""

from statistics import median, quantiles

from bench.samples import Samples
from bench.seeing.variant import ALL, CONTROL, DEFAULT, OFF

_COMPARED = {"default": DEFAULT, "all": ALL, "control": CONTROL}


def overhead_figures(samples: Samples) -> dict[str, float | None]:
    """Shares, by name: of requests a second that are lost, and of CPU that is added.

    Each is the median of the rounds, in each of which the variant is held against `off` of the
    same round. Those of `control`, which sees as little as `off`, say what chance makes of it.
    """
    figures: dict[str, float | None] = {}
    for name, variant in _COMPARED.items():
        rates = samples.of_turns(f"rps {variant.name}", f"rps {OFF.name}")
        costs = samples.of_turns(f"cpu_us {variant.name}", f"cpu_us {OFF.name}")
        figures[f"overhead_{name}"] = _middle([1 - ratio for ratio in rates])
        figures[f"cpu_overhead_{name}"] = _middle([ratio - 1 for ratio in costs])
        figures[f"cpu_overhead_{name}_error"] = _error_of_median(costs)
    return figures


def _middle(shares: list[float]) -> float | None:
    return round(median(shares), 4) if shares else None


def _error_of_median(ratios: list[float]) -> float | None:
    """Half of the middle half, over the root of how many: how far their median may be off."""
    if len(ratios) < 4:
        return None
    lower, _, upper = quantiles(ratios, n=4)
    return float(round((upper - lower) / 2 / len(ratios) ** 0.5, 4))
