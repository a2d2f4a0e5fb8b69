"""What `weir calibrate` was asked for, as it was given; see `weir calibrate --help`."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from weir_cli.calibration.plan import CalibrationPlan
from weir_cli.errors import CommandError
from weir_cli.load.goodput import Targets

DEFAULT_MINUTES = 9.0
DEFAULT_INPUTS, DEFAULT_OUTPUTS, DEFAULT_LEVELS = "64,512", "16,64", "1,2,4,8,16"
_MOST_STREAMS = 4_096


@dataclass(frozen=True, kw_only=True)
class CalibrationOptions:
    """The options of the command.

    Attributes:
        model, null: what a stack of its own serves.
        url, key, served: a stack that runs, and the public name of its model; an empty `url`
            means one of its own.
        address, state_dir: its scheduler.
        directory: its directory file.
    """

    out: Path
    home: Path
    minutes: float = DEFAULT_MINUTES
    inputs: str = DEFAULT_INPUTS
    outputs: str = DEFAULT_OUTPUTS
    levels: str = DEFAULT_LEVELS
    targets: Targets = field(default_factory=Targets)
    fresh: bool = False
    model: Path | None = None
    null: bool = False
    url: str = ""
    key: str = ""
    served: str = ""
    address: str = ""
    state_dir: Path | None = None
    directory: Path | None = None

    def plan(self) -> CalibrationPlan:
        """Raises CommandError."""
        levels = _numbers(self.levels, "--concurrency", _MOST_STREAMS)
        if list(levels) != sorted(set(levels)):
            raise CommandError(f"--concurrency is {self.levels!r}; it must rise")
        return CalibrationPlan(
            inputs=_pair(self.inputs, "--input-len"),
            outputs=_pair(self.outputs, "--output-len"),
            levels=levels,
            seconds=self.minutes * 60,
        )

    def facts(self) -> dict[str, Any]:
        """What a journal must have been made with, to be gone on with."""
        return {
            "minutes": self.minutes,
            "inputs": self.inputs,
            "outputs": self.outputs,
            "levels": self.levels,
            "targets": self.targets.given,
            "model": str(self.model or ""),
            "null": self.null,
            "url": self.url,
        }


def _pair(text: str, option: str) -> tuple[int, int]:
    values = _numbers(text, option, 1_000_000)
    if len(values) != 2 or values[0] >= values[1]:
        raise CommandError(f"{option} is {text!r}; it must be SHORT,LONG, the second more")
    return values[0], values[1]


def _numbers(text: str, option: str, most: int) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdigit() and 1 <= int(part) <= most for part in parts):
        raise CommandError(f"{option} is {text!r}; it must be numbers from 1 to {most}, by commas")
    return tuple(map(int, parts))
