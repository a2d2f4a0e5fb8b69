"""What a calibration may change: values of the directory, by where they stand there."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from weir_core.directory.parameters import OF_WORKER, Parameters

POLICY = "scheduler_policy"
_BUILT_IN = Parameters()


@dataclass(frozen=True, slots=True)
class ChosenSettings:
    """Values of one profile and model; what is not named is built in.

    Attributes:
        parameters: by the directory's names.
        policy: of the pool; empty: as it is.
    """

    parameters: Mapping[str, float] = field(default_factory=dict)
    policy: str = ""

    def value(self, name: str) -> float:
        """Of a parameter, given or built in."""
        if name in self.parameters:
            return self.parameters[name]
        return default_of(name)

    def but(self, policy: str | None = None, **values: float) -> "ChosenSettings":
        """These settings with some others."""
        order = self.policy if policy is None else policy
        return ChosenSettings({**self.parameters, **values}, order)

    def in_full(self) -> tuple[object, ...]:
        """Equal for settings that have the same effect."""
        names = sorted(f.name for f in fields(Parameters))
        return (self.policy or "fifo", *(self.value(_name_of(name)) for name in names))

    def of_profile(self) -> dict[str, Any]:
        """What stands in `parameters: {profiles: {<profile>: ...}}`."""
        return {
            name: _written(name, value)
            for name, value in self.parameters.items()
            if name in OF_WORKER
        }

    def of_model(self) -> dict[str, Any]:
        """What stands in the model's `parameters` itself."""
        return {
            name: _written(name, value)
            for name, value in self.parameters.items()
            if name not in OF_WORKER
        }


def _written(name: str, value: float) -> float:
    """As the directory file takes it: whole numbers but for alpha."""
    return value if name == "alpha" else int(value)


def _name_of(field_name: str) -> str:
    return "alpha" if field_name == "alpha_millis" else field_name


def default_of(name: str) -> float:
    """The built-in value of a parameter."""
    if name == "alpha":
        return _BUILT_IN.alpha_millis / 1000
    return float(getattr(_BUILT_IN, name))


def with_settings(model: Mapping[str, Any], profile: str, chosen: ChosenSettings) -> dict[str, Any]:
    """A model's entry of a directory file with these values in the place of its own."""
    parameters = dict(model.get("parameters") or {}) | chosen.of_model()
    profiles = dict(parameters.get("profiles") or {})
    of_profile = dict(profiles.get(profile) or {}) | chosen.of_profile()
    if of_profile:
        profiles[profile] = of_profile
    if profiles:
        parameters["profiles"] = profiles
    return {**model, **({"parameters": parameters} if parameters else {})}
