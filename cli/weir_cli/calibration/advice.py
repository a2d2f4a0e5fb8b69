"""One recommended value, and all of them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from weir_cli.calibration.settings import ChosenSettings, default_of


@dataclass(frozen=True, slots=True)
class Advice:
    """One value and why.

    Attributes:
        name: of the setting.
        value: recommended.
        default: built in; None where it is the worker's or a tenant's own.
        why: one sentence.
    """

    name: str
    value: float | str
    default: float | str | None
    why: str


@dataclass(frozen=True)
class Recommendation:
    """All of it.

    Attributes:
        parameters: of the directory, every value of a batch and the long-context threshold.
        worker: settings of the worker's process.
        tenant: part of a plan's `policy`.
        policy: the pool's order.
    """

    parameters: Sequence[Advice]
    policy: Advice
    worker: Sequence[Advice] = ()
    tenant: Sequence[Advice] = ()

    @property
    def chosen(self) -> ChosenSettings:
        """As the directory takes it."""
        values = {one.name: float(one.value) for one in self.parameters}
        return ChosenSettings(values, str(self.policy.value))

    def as_json(self) -> list[dict[str, object]]:
        """For a program."""
        advices = (*self.parameters, self.policy, *self.worker, *self.tenant)
        return [
            {"name": one.name, "value": one.value, "default": one.default, "why": one.why}
            for one in advices
        ]


def advice(name: str, value: float, why: str) -> Advice:
    """One of a parameter that has a built-in value."""
    return Advice(name, value, default_of(name), why)


def up(value: float, step: int) -> int:
    """The next multiple of `step`."""
    return math.ceil(value / step) * step
