"""Which files of the repository are pages of the site, and where each stands there."""

import posixpath
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
CONFIG = ROOT / "zensical.toml"
_HOME = "README.md"  # its place on the site is taken by docs/index.md
_PLACES = {"README.zh.md": "zh.md", _HOME: "index.md"}
_FOLDERS = ("docs", "services", "libs", "sim", "bench", "deploy")
_SKIPPED = {"node_modules", "build"}


def page_files() -> list[str]:
    """Every page as a path in the repository, README.md left out."""
    found = [path.name for path in ROOT.glob("*.md") if path.name != _HOME]
    for folder in _FOLDERS:
        found += [str(path.relative_to(ROOT)) for path in (ROOT / folder).rglob("*.md")]
    return sorted(path for path in found if not _SKIPPED & set(Path(path).parts))


def place(file: str) -> str:
    """Where a file of the repository stands on the site; docs/ is the site's root."""
    return _PLACES.get(file, file.removeprefix("docs/"))


def navigation() -> list[tuple[tuple[str, ...], str, str]]:
    """Every entry of the navigation: the sections above it, its title, its page on the site."""
    config = tomllib.loads(CONFIG.read_text(encoding="utf-8"))
    return list(_entries(config["project"]["nav"], ()))


def _entries(
    nav: list[dict[str, Any]], above: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], str, str]]:
    for entry in nav:
        for title, value in entry.items():
            if isinstance(value, str):
                yield above, title, value
            else:
                yield from _entries(value, (*above, title))


def target_file(page: str, link: str) -> tuple[str, str]:
    """The file or folder of the repository that a link of a page names, and the anchor."""
    path, _, anchor = link.partition("#")
    if not path:
        return page, anchor
    return posixpath.normpath(posixpath.join(posixpath.dirname(page), path)), anchor


def is_elsewhere(link: str) -> bool:
    """Whether a link leads out of the repository."""
    return re.match(r"[a-z][a-z0-9+.-]*:", link) is not None
