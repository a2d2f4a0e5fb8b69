"""The expressions of dashboards and rules, and the metrics that they ask for."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tools.dashboards.panels import Query
from tools.generate_monitoring import DASHBOARDS

RULES = Path(__file__).resolve().parents[2] / "deploy" / "prometheus" / "rules"

_TEXT = re.compile(r'"(?:[^"\\]|\\.)*"')
_SELECTOR = re.compile(r"\{[^{}]*\}")
_RANGE = re.compile(r"\[[^\[\]]*\]")
_LABELS = re.compile(
    r"\b((by|without|on|ignoring)\s*\([^()]*\)|(group_left|group_right)\b(\s*\([^()]*\))?)"
)
_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_WORDS = {"and", "or", "unless", "bool", "offset", "inf", "nan"}
_CHOSEN = re.compile(r"\$(model|tenant|worker)\b")


def metrics_of(expr: str) -> set[str]:
    """Names of metrics; those of functions and labels are none."""
    bare = _TEXT.sub('""', expr)
    for pattern in (_SELECTOR, _RANGE, _LABELS):
        bare = pattern.sub(" ", bare)
    return {
        match[0]
        for match in _NAME.finditer(bare)
        if match[0].lower() not in _WORDS
        and not bare[match.end() :].lstrip().startswith("(")
        and not (match.start() and bare[match.start() - 1].isdigit())
    }


def without_variables(expr: str) -> str:
    """The expression of a dashboard as Grafana sends it when everything is chosen."""
    return _CHOSEN.sub(".*", expr).replace("$__rate_interval", "10m")


def queries() -> Iterator[tuple[str, Query]]:
    """Every query of a dashboard, and where it stands."""
    for dashboard in DASHBOARDS:
        for row in dashboard.rows:
            for panel in row.panels:
                for query in panel.queries:
                    yield f"{dashboard.uid}: {panel.title}", query


def rules() -> Iterator[dict[str, Any]]:
    """Every rule for recording, and every alert."""
    for path in sorted(RULES.glob("*.yml")):
        for group in yaml.safe_load(path.read_text())["groups"]:
            yield from group["rules"]
