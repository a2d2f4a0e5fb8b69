"""`--cost-model`: how long a worker's steps take."""

from weir_cli.errors import CommandError
from weir_sim.cost.linear import LinearCost
from weir_sim.cost.model import CostModel
from weir_sim.cost.reference import REFERENCES

_LINEAR = "linear:"
_PARTS = ("a step", "a prompt token", "a position it reads", "a decode", "a position it reads")


def cost_model(text: str) -> CostModel:
    """A known machine by name, or `linear:` and five numbers of milliseconds.

    Raises:
        CommandError: neither.
    """
    if text in REFERENCES:
        return REFERENCES[text]
    if text.startswith(_LINEAR):
        return _linear(text)
    raise CommandError(
        f"--cost-model is {text!r}; it must be one of {', '.join(REFERENCES)}, or "
        f"{_LINEAR}MS,MS,MS,MS,MS for {', '.join(_PARTS)}"
    )


def _linear(text: str) -> LinearCost:
    try:
        parts = [float(part) / 1000 for part in text.removeprefix(_LINEAR).split(",")]
    except ValueError:
        parts = []
    if len(parts) != len(_PARTS) or min(parts) < 0 or not parts[0] > 0:
        raise CommandError(
            f"--cost-model is {text!r}; {_LINEAR} takes five numbers of milliseconds, 0 or more "
            f"and the first above 0: {', '.join(_PARTS)}"
        )
    return LinearCost(*parts)
