"""The cases of alerts as tests of promtool: `deploy/prometheus/tests/alerts.yml`."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tools.alert_cases import CASES, Case

ROOT = Path(__file__).resolve().parents[1]
RULES = ROOT / "deploy" / "prometheus" / "rules"
TESTS = ROOT / "deploy" / "prometheus" / "tests" / "alerts.yml"
_LABEL = "{{{{ $labels.{} }}}}"


def alerts() -> dict[str, dict[str, Any]]:
    """The alerts of the rules, by name."""
    rules = yaml.safe_load((RULES / "alerts.yml").read_text(encoding="utf-8"))
    return {rule["alert"]: rule for group in rules["groups"] for rule in group["rules"]}


def promtool_tests() -> str:
    """The text of `TESTS`."""
    document = {
        "rule_files": ["../rules/recording.yml", "../rules/alerts.yml"],
        "evaluation_interval": "1m",
        "tests": list(_tests()),
    }
    head = "# Made of tools/alert_cases.py (`make proto`). `promtool test rules` runs it.\n"
    return head + yaml.safe_dump(document, sort_keys=False, width=100)


def _tests() -> Iterator[dict[str, Any]]:
    known = alerts()
    for name, cases in CASES.items():
        for number, case in enumerate(cases, 1):
            yield {
                "name": f"{name} {number}",
                "interval": "1m",
                "input_series": [
                    {"series": series, "values": values} for series, values in case.series.items()
                ],
                "alert_rule_test": list(_moments(name, known[name], case)),
            }


def _moments(name: str, rule: dict[str, Any], case: Case) -> Iterator[dict[str, Any]]:
    if case.not_yet:
        yield {"eval_time": case.not_yet, "alertname": name, "exp_alerts": []}
    fires = [_expected(rule, labels) for labels in case.fires]
    yield {"eval_time": case.at, "alertname": name, "exp_alerts": fires}


def _expected(rule: dict[str, Any], labels: dict[str, str]) -> dict[str, Any]:
    said = {}
    for key, text in rule["annotations"].items():
        for label, value in labels.items():
            text = text.replace(_LABEL.format(label), value)
        said[key] = text
    return {"exp_labels": {**rule["labels"], **labels}, "exp_annotations": said}
