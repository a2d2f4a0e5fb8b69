"""The code blocks of the Markdown pages."""

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tools.site_pages.markdown_text import lines_of_text
from tools.site_pages.pages import page_files

ROOT = Path(__file__).resolve().parents[2]
_OPENING = re.compile(r"^ *(?:`{3,}|~{3,})(.*)$")
_MARKER = re.compile(r"<!-- not run: (.+?) -->")


@dataclass(frozen=True)
class Block:
    """One block.

    Attributes:
        line: of its first line of code.
        reason: why it cannot be run here, from the comment above it; empty: it is run.
    """

    page: str
    line: int
    language: str
    text: str
    reason: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line} ({self.language})"


def pages() -> list[str]:
    """Every Markdown page of the repository."""
    return ["README.md", *page_files()]


def blocks_of(page: str) -> list[Block]:
    """The blocks of a page, in order."""
    return list(_blocks(page, (ROOT / page).read_text(encoding="utf-8")))


def _blocks(page: str, text: str) -> Iterator[Block]:
    inside: list[str] | None = None
    language, reason, first, last_text = "", "", 0, ""
    for index, line, code in lines_of_text(text):
        if not code:
            if inside is not None:
                yield _block(page, first, language, inside, reason)
                inside = None
            last_text = line if line.strip() else last_text
        elif inside is None:
            opening = _OPENING.match(line)
            assert opening is not None
            marker = _MARKER.fullmatch(last_text.strip())
            language, reason = opening[1].strip(), marker[1] if marker else ""
            inside, first = [], index + 2
        elif line.strip().startswith(("```", "~~~")):
            yield _block(page, first, language, inside, reason)
            inside, last_text = None, ""
        else:
            inside.append(line)


def _block(page: str, line: int, language: str, lines: list[str], reason: str) -> Block:
    text = textwrap.dedent("\n".join(lines)) + "\n"
    return Block(page, line, language, text, reason)
