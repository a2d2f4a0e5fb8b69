"""docs/coverage.md, read: a row for each feature, with the tests that it names."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_ROW = re.compile(r"\| ([A-F]\d+) \|(.*)\|(.*)\|(.*)\|(.*)\|")
_NODE_ID = re.compile(r"`(tests/[^`]+::[^`]+)`")
_LINK = re.compile(r"\[[^]]+\]\(([^)]+)\)")


@dataclass(frozen=True)
class Row:
    feature: str
    status: str
    node_ids: tuple[str, ...]
    links: tuple[str, ...]


def rows_of(page: Path) -> list[Row]:
    return [
        Row(
            match[1],
            match[3].strip(),
            tuple(_NODE_ID.findall(match[4])),
            tuple(_LINK.findall(match[5])),
        )
        for match in map(_ROW.fullmatch, page.read_text(encoding="utf-8").splitlines())
        if match
    ]


def not_run(page: Path, outcomes: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """Tests that the page names and that did not run, and those that were skipped.

    Args:
        page: docs/coverage.md.
        outcomes: of every test, by node id.
    """
    seen = {
        node_id: _outcomes(node_id, outcomes) for row in rows_of(page) for node_id in row.node_ids
    }
    missing = [node_id for node_id, found in seen.items() if not found]
    skipped = [node_id for node_id, found in seen.items() if found == {"skipped"}]
    return sorted(missing), sorted(skipped)


def _outcomes(node_id: str, outcomes: Mapping[str, str]) -> set[str]:
    return {
        outcome
        for ran, outcome in outcomes.items()
        if ran == node_id or ran.startswith((f"{node_id}[", f"{node_id}::"))
    }
