"""Calibrated values of worker profiles, one file a version.

`<home>/profiles/<profile>/<model>/v0001.yaml`; a version is never changed.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from weir_cli.calibration.advice import Recommendation
from weir_cli.calibration.settings import ChosenSettings, with_settings
from weir_cli.errors import CommandError
from weir_sim.cost.fitted import ServedCost

_VERSION = re.compile(r"v(\d{4,})\.yaml")
_HEADER = """\
# Written by `weir calibrate`; docs/capacity.md says how each value was found.
# `parameters` goes into the model's entry of the directory file, `scheduler_policy` into its pool,
# `policy` into a plan or tenant, `worker` into the worker's settings (--config);
# `weir calibrate --apply FILE` does the first two.
"""


@dataclass(frozen=True, slots=True)
class StoredProfile:
    """What is kept of a calibration.

    Attributes:
        profile: key of the worker's parameters: device, memory, dtype, engine, parallelism.
        model: public name.
        chosen: values to be in force: the recommended ones, or those that were kept.
        verdict: of the comparison with the built-in values.
        recommendation: for what is not of the directory's parameters.
        served: the fitted cost model.
        targets: milliseconds by name.
    """

    profile: str
    model: str
    chosen: ChosenSettings
    verdict: str
    recommendation: Recommendation
    served: ServedCost
    targets: Mapping[str, float]

    def text(self, version: int) -> str:
        """The file."""
        entry = with_settings({}, self.profile, self.chosen)
        document: dict[str, Any] = {
            "version": version,
            "made": datetime.now(UTC).isoformat(timespec="seconds"),
            "profile": self.profile,
            "model": self.model,
            "verdict": self.verdict,
            "targets_ms": dict(self.targets),
            **entry,
            "scheduler_policy": self.chosen.policy or "fifo",
            "worker": {one.name: one.value for one in self.recommendation.worker},
            "policy": {"kv": {_of_kv(one.name): one.value for one in self.recommendation.tenant}},
            "cost_model": cost_text(self.served),
        }
        return _HEADER + yaml.safe_dump(document, sort_keys=False)


def store(home: Path, stored: StoredProfile) -> Path:
    """Writes the next version; its file. Raises CommandError."""
    folder = home / "profiles" / _file_name(stored.profile) / _file_name(stored.model)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        version = latest_version(folder) + 1
        path = folder / f"v{version:04}.yaml"
        with path.open("x", encoding="utf-8") as file:
            file.write(stored.text(version))
    except OSError as error:
        raise CommandError(f"{folder} cannot be written: {error}") from None
    return path


def latest_version(folder: Path) -> int:
    """Of the versions in a folder; 0: none."""
    found = [_VERSION.fullmatch(path.name) for path in folder.glob("v*.yaml")]
    return max((int(match[1]) for match in found if match), default=0)


def read_profile(path: Path) -> tuple[str, str, ChosenSettings]:
    """Profile, model and values of a stored file. Raises CommandError."""
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
        profile, model = str(document["profile"]), str(document["model"])
        parameters = dict(document.get("parameters") or {})
        profiles = parameters.pop("profiles", {})
        values = parameters | dict(profiles.get(profile) or {})
        return profile, model, ChosenSettings(values, str(document.get("scheduler_policy", "")))
    except (OSError, yaml.YAMLError, KeyError, TypeError, AttributeError) as error:
        raise CommandError(f"{path} is no file of `weir calibrate`: {error}") from None


def cost_text(served: ServedCost) -> str:
    """As `weir simulate --cost-model` takes it: milliseconds."""
    cost = served.cost
    parts = (
        cost.step, cost.prefill_token, cost.prefill_position, cost.decode, cost.context_token
    )  # fmt: skip
    return "linear:" + ",".join(f"{part * 1e3:.6g}" for part in parts)


def _of_kv(name: str) -> str:
    return name.removeprefix("kv.")


def _file_name(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]", "-", name)
