"""docs/coverage.md: a line for each feature, whose tests exist and ran and whose pages exist."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from tests.conftest import RAN, WHOLE_SUITE

FEATURES = [
    f"{group}{number}"
    for group, count in {"A": 12, "B": 7, "C": 10, "D": 9, "E": 6, "F": 7}.items()
    for number in range(1, count + 1)
]
STATUSES = ("built", "partial", "open")
_ROW = re.compile(r"\| ([A-F]\d+) \|(.*)\|(.*)\|(.*)\|(.*)\|")
_NODE_ID = re.compile(r"`(tests/[^`]+::[^`]+)`")
_LINK = re.compile(r"\[[^]]+\]\(([^)]+)\)")


@dataclass(frozen=True)
class Row:
    feature: str
    status: str
    node_ids: tuple[str, ...]
    links: tuple[str, ...]


@pytest.fixture(scope="module")
def page(repo_root: Path) -> Path:
    return repo_root / "docs" / "coverage.md"


@pytest.fixture(scope="module")
def rows(page: Path) -> list[Row]:
    return [
        Row(match[1], match[3].strip(), _found(_NODE_ID, match[4]), _found(_LINK, match[5]))
        for match in map(_ROW.fullmatch, page.read_text(encoding="utf-8").splitlines())
        if match
    ]


def test_every_feature_has_its_line(rows: list[Row]) -> None:
    assert [row.feature for row in rows] == FEATURES


def test_what_is_said_to_be_there_is_tested_and_documented(rows: list[Row]) -> None:
    for row in rows:
        assert row.status in STATUSES, row
        if row.status != "open":
            assert row.node_ids, f"{row.feature} is {row.status} without a test"
            assert row.links, f"{row.feature} is {row.status} without a page"


def test_the_tests_exist(rows: list[Row], repo_root: Path) -> None:
    for row in rows:
        for node_id in row.node_ids:
            file, _, name = node_id.partition("::")
            assert name in _test_names(repo_root / file), f"{row.feature}: no {node_id}"


def test_the_pages_exist(rows: list[Row], page: Path) -> None:
    for row in rows:
        for link in row.links:
            file, _, anchor = link.partition("#")
            target = (page.parent / file).resolve()
            assert target.is_file(), f"{row.feature}: no {file}"
            assert not anchor or anchor in _anchors(target), f"{row.feature}: no {link}"


def test_the_tests_ran(rows: list[Row], request: pytest.FixtureRequest) -> None:
    if not request.config.stash[WHOLE_SUITE]:
        pytest.skip("only a run of the whole suite can tell")
    outcomes = request.config.stash[RAN]
    named = {node_id for row in rows for node_id in row.node_ids}
    seen = {node_id: _outcomes(node_id, outcomes) for node_id in named}
    assert {node_id for node_id, found in seen.items() if not found} == set()
    skipped = sorted(node_id for node_id, found in seen.items() if found == {"skipped"})
    if skipped:
        # Under REQUIRE each of them has failed already.
        pytest.skip(f"parts of this machine are missing; skipped: {', '.join(skipped)}")


def _outcomes(node_id: str, outcomes: dict[str, str]) -> set[str]:
    return {
        outcome
        for ran, outcome in outcomes.items()
        if ran == node_id or ran.startswith((f"{node_id}[", f"{node_id}::"))
    }


def _found(pattern: re.Pattern[str], cell: str) -> tuple[str, ...]:
    return tuple(pattern.findall(cell))


@cache
def _test_names(file: Path) -> frozenset[str]:
    if not file.is_file():
        return frozenset()
    return frozenset(_definitions(ast.parse(file.read_text(encoding="utf-8")).body))


def _definitions(body: list[ast.stmt], prefix: str = "") -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if node.name.startswith("test"):
                yield prefix + node.name
        elif isinstance(node, ast.ClassDef):
            yield prefix + node.name
            yield from _definitions(node.body, f"{prefix}{node.name}::")
        elif isinstance(node, ast.Assign | ast.AnnAssign):  # a hypothesis machine's TestCase
            targets = [node.target] if isinstance(node, ast.AnnAssign) else node.targets
            names = [target.id for target in targets if isinstance(target, ast.Name)]
            yield from (prefix + name for name in names if name.startswith("Test"))


@cache
def _anchors(file: Path) -> frozenset[str]:
    """Anchors as GitHub makes them of headings."""
    headings = re.findall(r"^#+ (.+)$", file.read_text(encoding="utf-8"), re.MULTILINE)
    kept = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return frozenset(heading.strip().replace(" ", "-") for heading in kept)
