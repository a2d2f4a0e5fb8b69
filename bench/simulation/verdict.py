"""Whether a relation holds: one function, and all its thresholds in `thresholds.json`.

    {"R1": {"figure": "gap_tokens", "limits": {"gap_tokens": {"at_most": 40000}}}, ...}

`figure` is the one that is reported first. A figure within all its limits holds.
"""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.simulation.row import Figures, Row

_FILE = Path(__file__).with_name("thresholds.json")

Limits = Mapping[str, Mapping[str, float]]


def thresholds() -> dict[str, Any]:
    """Every row's thresholds."""
    loaded: dict[str, Any] = json.loads(_FILE.read_text())
    return loaded


def holds(figures: Figures, limits: Limits) -> bool:
    """Whether every figure that is there is within its limits.

    Raises:
        ValueError: none of the limited figures is there: nothing would be judged.
    """
    judged = [name for name in limits if name in figures]
    if not judged:
        raise ValueError(f"no figure of {sorted(limits)} is among {sorted(figures)}")
    return all(_within(figures[name], limits[name]) for name in judged)


def _within(value: float, limit: Mapping[str, float]) -> bool:
    unknown = limit.keys() - {"at_most", "at_least"}
    if unknown or not limit:
        raise ValueError(f"a limit is at_most and/or at_least, not {dict(limit)}")
    if math.isnan(value):
        return False
    return limit.get("at_least", -math.inf) <= value <= limit.get("at_most", math.inf)


def verdict(name: str, row: Row) -> dict[str, Any]:
    """The row as the benchmark reports it.

    Raises:
        ValueError: a limited figure was not measured.
    """
    rules = thresholds()[name]
    limits: Limits = rules["limits"]
    missing = limits.keys() - row.figures.keys()
    if missing:
        raise ValueError(f"{name} did not measure {sorted(missing)}")
    return {
        "holds": holds(row.figures, limits),
        "figure": row.figures[rules["figure"]],
        "control_fails": not holds(row.control, limits),
        "why": row.why,
        "figures": dict(row.figures),
        "control": dict(row.control),
    }
