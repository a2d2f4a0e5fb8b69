"""The documentation site: every page has its place, and no link of any page is dead."""

import re
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer

from tools.site_pages.llms_text import llms_text
from tools.site_pages.markdown_text import anchors, headings, lines_of_text, links
from tools.site_pages.pages import (
    ROOT,
    is_elsewhere,
    navigation,
    page_files,
    place,
    target_file,
)
from weir_cli.app import app
from weir_core.errors import WIRE_CODES

# Reached from the page of their folder.
_ONE_OF_MANY = ("docs/decisions/0",)
_PAGES = ["README.md", *page_files()]
# Of figures that stand in the results with more digits.
_ROUNDED = {"65", "89"}
# Commands that call nobody.
_OF_NOBODY = {"up", "version"}


@cache
def _text(file: Path) -> str:
    return file.read_text(encoding="utf-8")


@cache
def _anchors(file: Path) -> frozenset[str]:
    return frozenset(anchors(_text(file)))


def test_every_page_of_docs_is_in_the_navigation_once() -> None:
    there = [page for _, _, page in navigation()]
    wanted = {
        place(file)
        for file in page_files()
        if file.startswith("docs/") and not file.startswith(_ONE_OF_MANY)
    }
    assert wanted - set(there) == set()
    assert len(there) == len(set(there))


@pytest.mark.parametrize("page", _PAGES)
def test_no_link_is_dead(repo_root: Path, page: str) -> None:
    dead = []
    for line, link in links(_text(repo_root / page)):
        if is_elsewhere(link):
            continue
        name, anchor = target_file(page, link)
        file = repo_root / name
        file = file / "README.md" if file.is_dir() and anchor else file
        if not file.exists() or (anchor and anchor not in _anchors(file)):
            dead.append(f"{page}:{line}: {link}")
    assert dead == []


def test_a_dead_link_a_dead_anchor_and_links_in_code_are_told_apart(tmp_path: Path) -> None:
    page = "# A b\n\n[x](no.md) `[y](no.md)` [z `c`](#a-b)\n```sh\n[v](no.md)\n```\n## A b\n"
    assert list(links(page)) == [(3, "no.md"), (3, "#a-b")]
    assert anchors(page) == {"a-b", "a-b-1"}


def test_the_site_builds_without_a_warning(repo_root: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tools.site_pages.build"],
        cwd=repo_root,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    site = repo_root / "build" / "site"
    assert "fonts.googleapis" not in (site / "index.html").read_text(encoding="utf-8")
    for _, _, page in navigation():
        made = site / re.sub(r"(?:^|(?<=/))(?:README|index)$", "", page.removesuffix(".md"))
        assert (made / "index.html").is_file(), page
    assert (site / "llms.txt").read_text(encoding="utf-8") == llms_text()


def test_llms_txt_names_every_page_with_what_it_says() -> None:
    entries = re.findall(r"^- \[(.+?)\]\((/\S*)\): (.+)$", llms_text(), re.MULTILINE)
    assert len(entries) == len(navigation())
    assert all(len(said) > 10 for _, _, said in entries)


def test_the_chinese_readme_keeps_step_with_the_english(repo_root: Path) -> None:
    english, chinese = _text(repo_root / "README.md"), _text(repo_root / "README.zh.md")
    depth = re.compile(r"^(#+) ", re.MULTILINE)
    assert _code(chinese) == _code(english)
    assert depth.findall(_prose(chinese)) == depth.findall(_prose(english))
    assert len(headings(chinese)) == len(headings(english))
    # A language's own page is linked under its own name in the other.
    assert _linked(chinese) - {"README.md"} == _linked(english) - {"README.zh.md"}
    assert _rows(chinese) == _rows(english)
    assert _numbers(chinese) == _numbers(english)


def _code(text: str) -> list[str]:
    return [line for _, line, code in lines_of_text(text) if code]


def _prose(text: str) -> str:
    return "\n".join(line for _, line, code in lines_of_text(text) if not code)


def _linked(text: str) -> set[str]:
    return {link.partition("#")[0] for _, link in links(text)}


def _numbers(text: str) -> list[Counter[str]]:
    """Of each row of a table, its numbers: languages order words in ways of their own."""
    rows = [line for line in _prose(text).split("\n") if line.startswith("|")]
    return [Counter(re.findall(r"\d[\d,.]*\d|\d", row)) for row in rows]


def _rows(text: str) -> list[int]:
    """Of each row of a table, how many cells it has."""
    return [line.count(" | ") for line in _prose(text).split("\n") if line.startswith("|")]


def test_every_test_that_a_page_names_is_there(repo_root: Path) -> None:
    for page in _PAGES:
        for file, name in re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?", _text(repo_root / page)):
            assert (repo_root / file).is_file(), f"{page}: no {file}"
            assert not name or re.search(
                rf"^\s*(?:async def|def|class|{name} =).*\b{name}\b|^{name}\b",
                _text(repo_root / file),
                re.MULTILINE,
            ), f"{page}: no {file}::{name}"


def test_every_row_of_the_checklist_says_where_it_is_explained_and_what_shows_it(
    repo_root: Path,
) -> None:
    page = _text(repo_root / "docs" / "production.md")
    rows = [
        [cell.strip() for cell in line.strip("|").split(" | ")]
        for line in page.splitlines()
        if line.startswith("| ") and not line.startswith("| check ")
    ]
    assert len(rows) > 30
    wrong = [check for check, where, shown in rows if "](" not in where or "`" not in shown]
    assert wrong == []


def test_every_reason_has_its_remedy(repo_root: Path) -> None:
    page = _text(repo_root / "docs" / "troubleshooting.md")
    section = page[page.index("## By reason") :]
    told = {
        reason
        for row in section.splitlines()
        if row.startswith("| `")
        for reason in re.findall(r"`([A-Z_]+)`", row.split("|")[1])
    }
    assert told == set(WIRE_CODES)


@pytest.mark.parametrize("page", ["README.md", "docs/benchmarks.md"])
def test_figures_that_are_told_stand_in_the_results(repo_root: Path, page: str) -> None:
    measured = _text(repo_root / "bench" / "RESULTS.md")
    text = _text(repo_root / page)
    begin = text.index("## Measured") if page == "README.md" else text.index("## Engine")
    end = text.index("## Read on") if page == "README.md" else text.index("## Not measured")
    rows = [line for line in text[begin:end].splitlines() if line.startswith("|")]
    cells = [cell for row in rows for cell in row.strip("|").split(" | ")[1:3]]
    figures = {figure for cell in cells for figure in re.findall(r"\d[\d,.]*\d", cell)}
    assert len(figures) > 10
    assert {one for one in figures if one not in measured} <= _ROUNDED


def test_lists_are_indented_as_the_site_reads_them(repo_root: Path) -> None:
    """Below a number the site wants four blanks, where GitHub takes three."""
    wrong = []
    for page in _PAGES:
        inside = False
        for index, line, code in lines_of_text(_text(repo_root / page)):
            if not inside and re.match(r" {1,3}(```|[-*] |\d+\. )", line):
                wrong.append(f"{page}:{index + 1}: {line}")
            inside = code
    assert wrong == []


def test_every_command_that_a_page_names_is_there_with_its_options() -> None:
    missing = set()
    for page in _PAGES:
        for said in re.findall(r"`weir ([^`\n]+)`", _text(ROOT / page)):
            missing |= {f"{page}: weir {said}: {what}" for what in _unknown(said.split())}
    assert missing == set()


def test_every_command_has_its_caller() -> None:
    commands = _root().commands
    callers = _text(ROOT / "docs" / "cli.md").partition("<!-- begin")[0]
    assert [name for name in commands if f"`{name}" not in callers and name not in _OF_NOBODY] == []


@cache
def _root() -> Any:
    return typer.main.get_command(app)


def _unknown(words: list[str]) -> set[str]:
    """Which of the words of a command line are neither commands nor options, where they must be."""
    command, unknown = _root(), set()
    for word in words:
        inner = getattr(command, "commands", {})
        if word in inner:
            command = inner[word]
        elif inner and re.fullmatch(r"[a-z]+", word) and not command.invoke_without_command:
            unknown.add(word)
            break
        elif re.match(r"--[a-z]", word):
            options = {one for option in command.params for one in option.opts}
            options |= {one for option in command.params for one in option.secondary_opts}
            unknown |= {re.split(r"[=,.;:)]", word)[0]} - options - {"--help"}
    return unknown
