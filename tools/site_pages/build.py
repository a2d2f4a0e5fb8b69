"""Builds the site (what `make docs` runs): its pages into build/site-source, then Zensical.

Links between pages are those of the repository, where docs/ is a folder among others; on the site
it is the root. `--only-source` stops before Zensical.
"""

import argparse
import posixpath
import shutil
import subprocess
import sys
from pathlib import Path

from tools.site_pages.llms_text import llms_text
from tools.site_pages.markdown_text import with_links
from tools.site_pages.pages import ROOT, is_elsewhere, page_files, place, target_file

SOURCE = ROOT / "build" / "site-source"


def main() -> int:
    """Builds; returns Zensical's exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--only-source", action="store_true", help="do not run Zensical")
    only_source = parser.parse_args().only_source
    write_source(SOURCE)
    if only_source:
        return 0
    zensical = Path(sys.executable).with_name("zensical")
    return subprocess.run([zensical, "build", "--clean", "--strict"], cwd=ROOT).returncode


def write_source(folder: Path) -> None:
    """Writes all pages and what they link to into a folder, which it empties first."""
    shutil.rmtree(folder, ignore_errors=True)
    files: set[str] = set()
    for page in page_files():
        text, linked = _page(page)
        files |= linked
        target = folder / place(page)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    for file in files:
        target = folder / place(file)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / file, target)
    shutil.copytree(ROOT / "docs" / "assets", folder / "assets", dirs_exist_ok=True)
    (folder / "llms.txt").write_text(llms_text(), encoding="utf-8")


def _page(page: str) -> tuple[str, set[str]]:
    """A page as the site has it, and the files that are no pages to which it links."""
    files: set[str] = set()
    here = posixpath.dirname(place(page))
    pages = {*page_files(), "README.md"}

    def changed(label: str, link: str) -> str:
        if is_elsewhere(link) or link.startswith("#"):
            return f"{label}({link})"
        file, anchor = target_file(page, link)
        if (ROOT / file).is_dir():
            file = f"{file}/README.md"
        if file not in pages:
            if not (ROOT / file).is_file():  # a folder without a page
                return label[1:-1]
            files.add(file)
        path = posixpath.relpath(place(file), here or ".")
        return f"{label}({path}{'#' if anchor else ''}{anchor})"

    return with_links((ROOT / page).read_text(encoding="utf-8"), changed), files


if __name__ == "__main__":
    sys.exit(main())
