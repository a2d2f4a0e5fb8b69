"""`--cost-model`: how long a worker's steps take."""

from collections.abc import Mapping
from pathlib import Path

from weir_cli.errors import CommandError
from weir_sim.cost.builtin import A10G, CPU_2_CORES, H100
from weir_sim.cost.distserve import read_distserve
from weir_sim.cost.linear import LinearCost
from weir_sim.cost.model import CostModel
from weir_sim.cost.splitwise import read_splitwise

MACHINES: Mapping[str, CostModel] = {"a10g": A10G, "cpu": CPU_2_CORES, "h100": H100}
_LINEAR = "linear:"
_LONGEST_MS = 3_600_000
_PARTS = ("a step", "a prompt token", "a position it reads", "a decode", "a position it reads")


def cost_model(text: str) -> CostModel:
    """A machine by name, `linear:` and five numbers of milliseconds, or a published table.

    A table is `FILE.csv:MODEL:HARDWARE:TP` of Splitwise or `FILE.json:MODEL:TP` of DistServe.

    Raises:
        CommandError: none of these, or the file has no such rows.
    """
    if text in MACHINES:
        return MACHINES[text]
    if text.startswith(_LINEAR):
        return _linear(text)
    if ".csv:" in text or ".json:" in text:
        return _table(text)
    raise CommandError(
        f"--cost-model is {text!r}; it must be one of {', '.join(MACHINES)}, "
        f"{_LINEAR}MS,MS,MS,MS,MS for {', '.join(_PARTS)}, or a table: "
        "FILE.csv:MODEL:HARDWARE:TP (Splitwise) or FILE.json:MODEL:TP (DistServe)"
    )


def _linear(text: str) -> LinearCost:
    try:
        parts = [float(part) / 1000 for part in text.removeprefix(_LINEAR).split(",")]
    except ValueError:
        parts = []
    in_bounds = all(0 <= part <= _LONGEST_MS / 1000 for part in parts)
    if len(parts) != len(_PARTS) or not in_bounds or not parts[0] > 0:
        raise CommandError(
            f"--cost-model is {text!r}; {_LINEAR} takes five numbers of milliseconds, 0 to "
            f"{_LONGEST_MS}, the first above 0: {', '.join(_PARTS)}"
        )
    return LinearCost(*parts)


def _table(text: str) -> CostModel:
    try:
        if ".csv:" in text:
            file, model, hardware, degree = text.rsplit(":", 3)
            return read_splitwise(Path(file), model, hardware, int(degree))
        file, model, degree = text.rsplit(":", 2)
        return read_distserve(Path(file), model, int(degree))
    except (OSError, ValueError, KeyError) as error:
        raise CommandError(f"--cost-model {text}: {error}") from None
