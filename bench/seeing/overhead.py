"""What a variant costs more than nothing seen, from turns that were measured beside each other."""

from statistics import harmonic_mean, median, quantiles

from bench.samples import Samples
from bench.seeing.variant import ALL, CONTROL, DEFAULT, OFF

_COMPARED = {"default": DEFAULT, "all": ALL}


def overhead_figures(samples: Samples) -> dict[str, float | None]:
    """Shares, by name: of requests a second that are lost, and of CPU that is added.

    Each is the median of the rounds, in each of which the variant is held against the mean of
    `off` and `control`. What these two, which see nothing, differ by is what chance makes of it.
    """
    figures: dict[str, float | None] = {}
    for name, variant in _COMPARED.items():
        rates = _over_both(samples, f"rps {variant.name}", "rps")
        costs = _over_both(samples, f"cpu_us {variant.name}", "cpu_us")
        figures |= _named(name, rates, costs)
    rates = samples.of_turns(f"rps {CONTROL.name}", f"rps {OFF.name}")
    costs = samples.of_turns(f"cpu_us {CONTROL.name}", f"cpu_us {OFF.name}")
    return figures | _named("control", rates, costs)


def _over_both(samples: Samples, of: str, figure: str) -> list[float]:
    off = samples.of_turns(of, f"{figure} {OFF.name}")
    control = samples.of_turns(of, f"{figure} {CONTROL.name}")
    # The ratio to the mean of two is the harmonic mean of the ratios to each.
    return [harmonic_mean(pair) for pair in zip(off, control, strict=True)]


def _named(name: str, rates: list[float], costs: list[float]) -> dict[str, float | None]:
    return {
        f"overhead_{name}": _middle([1 - ratio for ratio in rates]),
        f"cpu_overhead_{name}": _middle([ratio - 1 for ratio in costs]),
        f"cpu_overhead_{name}_error": _error_of_median(costs),
    }


def _middle(shares: list[float]) -> float | None:
    return round(median(shares), 4) if shares else None


def _error_of_median(ratios: list[float]) -> float | None:
    """Half of the middle half, over the root of how many: how far their median may be off."""
    if len(ratios) < 4:
        return None
    lower, _, upper = quantiles(ratios, n=4)
    return float(round((upper - lower) / 2 / len(ratios) ** 0.5, 4))
