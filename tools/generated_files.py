"""Writes generated files, or says which of them are behind: the command line of generators."""

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def write_or_check(files: Mapping[Path, str], about: str) -> int:
    """Writes each text to its path, or with `--check` only compares; returns the exit status.

    Args:
        files: path to text.
        about: what the generator does, for `--help`.
    """
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--check", action="store_true", help="change nothing")
    check = parser.parse_args().check
    behind = []
    for path, text in files.items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            behind.append(str(path.relative_to(ROOT)))
            if not check:
                path.write_text(text, encoding="utf-8")
    if check and behind:
        sys.stderr.write(f"behind, run `make proto`: {', '.join(behind)}\n")
        return 1
    return 0
