"""Metrics, rules, alerts and dashboards agree with each other, without a running stack."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.promql import metrics_of, queries, rules, without_variables
from tools.alert_cases import CASES
from tools.dashboards.panels import Panel
from tools.generate_monitoring import DASHBOARDS, GRAFANA
from tools.metrics_reference import catalogue, unit_of
from tools.promtool_tests import TESTS, alerts

# What comes with Prometheus itself.
BUILT_IN = {"up", "ALERTS"}
FORBIDDEN = re.compile(r"user|key|request|session|conversation|prompt|peer|job_id|trace|address")
ALLOWED = {"gen_ai_request_model"}
NAMED = re.compile(
    r"`((?:weir_|kv_cache_|model:|tenant:|tenant_objective:|instance:|tokenweir:)[\w:]+)"
)


def known_names() -> set[str]:
    names = {rule["record"] for rule in rules() if "record" in rule} | BUILT_IN
    for family in catalogue():
        names.add(family.name)
        if family.kind == "histogram":
            names |= {f"{family.name}_{end}" for end in ("bucket", "sum", "count")}
    return names


def panels() -> list[Panel]:
    return [panel for board in DASHBOARDS for row in board.rows for panel in row.panels]


def test_every_metric_that_is_asked_for_exists() -> None:
    known = known_names()
    expressions = [(where, query.expr) for where, query in queries()]
    expressions += [(rule.get("record") or rule["alert"], rule["expr"]) for rule in rules()]
    assert len(expressions) > 150
    unknown = {
        (where, name)
        for where, expr in expressions
        for name in metrics_of(without_variables(expr)) - known
    }
    assert not unknown


def test_names_are_found_in_expressions() -> None:
    expr = (
        'sum by (le, model) (rate(a_bucket{b="c"}[5m] offset 1h)) / on (x) group_left d:e:f > 2e3'
    )
    assert metrics_of(expr) == {"a_bucket", "d:e:f"}
    assert metrics_of('label_replace(a, "b", "$1", "c", "(d)") or vector(0)') == {"a"}


def test_every_metric_has_help_unit_and_bounded_labels() -> None:
    families = catalogue()
    assert len(families) > 100
    assert len({family.name for family in families}) == len(families)
    for family in families:
        assert len(family.text) > 3, family
        assert family.unit, family
        bad = {label for label in family.labels if FORBIDDEN.search(label)} - ALLOWED
        assert not bad, family
        assert (family.kind == "counter") == family.name.endswith("_total"), family


def test_a_name_without_unit_is_refused() -> None:
    with pytest.raises(KeyError, match="says no unit"):
        unit_of("weir_gateway_things")


def test_files_are_up_to_date(repo_root: Path) -> None:
    done = subprocess.run(
        [sys.executable, "tools/generate_monitoring.py", "--check"],
        cwd=repo_root,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_every_panel_says_what_it_shows_in_which_unit_and_where_to_read_on() -> None:
    known = alerts()
    linked = set()
    for panel in panels():
        assert panel.text.endswith("."), panel.title
        assert panel.unit, panel.title
        assert set(panel.alerts) <= set(known), panel.title
        linked |= set(panel.alerts)
    # A certificate has no panel: its end is a date.
    assert set(known) - linked <= {"TokenweirCertificateExpires"}


def test_dashboards_are_of_the_form_that_grafana_reads() -> None:
    for dashboard in DASHBOARDS:
        page = json.loads((GRAFANA / f"{dashboard.uid}.json").read_text())
        ids = [panel["id"] for panel in page["panels"]]
        assert len(set(ids)) == len(ids)
        variables = {one["name"] for one in page["templating"]["list"]}
        assert "datasource" in variables
        _not_on_each_other([panel["gridPos"] for panel in page["panels"]])
        for panel in page["panels"]:
            for target in panel.get("targets", ()):
                used = set(re.findall(r"\$(\w+)", target["expr"])) - {"__rate_interval"}
                assert used <= variables, target


def _not_on_each_other(places: list[dict[str, int]]) -> None:
    taken: set[tuple[int, int]] = set()
    for place in places:
        assert place["x"] + place["w"] <= 24
        cells = {
            (place["x"] + right, place["y"] + down)
            for right in range(place["w"])
            for down in range(place["h"])
        }
        assert not cells & taken, place
        taken |= cells


def test_every_alert_has_a_case_in_which_it_fires_and_one_in_which_it_does_not() -> None:
    assert set(CASES) == set(alerts())
    for name, cases in CASES.items():
        assert {bool(case.fires) for case in cases} == {True, False}, name


@pytest.mark.needs("prometheus")
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "command",
    [
        ["check", "config", "deploy/prometheus/prometheus.yml"],
        ["test", "rules", str(TESTS)],
    ],
)
def test_promtool_agrees(repo_root: Path, command: list[str]) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed")
    done = subprocess.run(
        [promtool, *command], cwd=repo_root, capture_output=True, text=True, timeout=290
    )
    assert done.returncode == 0, done.stdout + done.stderr


def runbook_sections(repo_root: Path) -> dict[str, str]:
    """Alerts with their sections."""
    text = (repo_root / "docs" / "runbooks.md").read_text()
    parts = re.split(r"^## (Tokenweir\w+)$", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_each_alert_has_its_section_and_each_section_its_alert(repo_root: Path) -> None:
    sections = runbook_sections(repo_root)
    assert set(sections) == set(alerts())
    for name, text in sections.items():
        for part in ("**Means.**", "**Users feel.**", "**Look.**", "**Do.**"):
            assert part in text, (name, part)


def test_every_alert_says_how_urgent_it_is_and_where_to_read(repo_root: Path) -> None:
    for name, rule in alerts().items():
        assert rule["labels"] in ({"severity": "page"}, {"severity": "ticket"}), name
        assert rule["annotations"]["runbook_url"] == f"docs/runbooks.md#{name.lower()}"


def test_runbooks_name_metrics_that_exist(repo_root: Path) -> None:
    known = known_names()
    for name, text in runbook_sections(repo_root).items():
        told = set(
            re.findall(r"`((?:weir_|kv_cache_|model:|tenant|instance:|grpc_)\w[\w:]*)", text)
        )
        assert told <= known, (name, told - known)
