"""docs/coverage.md: a line for each feature, whose tests and pages exist.

That the tests ran is checked at the end of a run of the whole suite, by tests/conftest.py.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.coverage_page import Row, rows_of

FEATURES = [
    f"{group}{number}"
    for group, count in {"A": 12, "B": 7, "C": 10, "D": 9, "E": 6, "F": 7}.items()
    for number in range(1, count + 1)
]
STATUSES = ("built", "partial", "open")


@pytest.fixture(scope="module")
def page(repo_root: Path) -> Path:
    return repo_root / "docs" / "coverage.md"


@pytest.fixture(scope="module")
def rows(page: Path) -> list[Row]:
    return rows_of(page)


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
