"""The committed stubs are what the protos generate."""

import filecmp
import subprocess
import sys
from pathlib import Path


def test_regenerating_changes_nothing(repo_root: Path, tmp_path: Path) -> None:
    command = [sys.executable, "tools/generate_stubs.py", "--out", str(tmp_path)]
    subprocess.run(command, cwd=repo_root, check=True, timeout=60)
    committed, made = repo_root / "libs" / "weir_client" / "weir", tmp_path / "weir"
    names = [_sources(committed), _sources(made)]
    assert names[0] == names[1]
    _, different, unreadable = filecmp.cmpfiles(committed, made, names[0], shallow=False)
    assert (different, unreadable) == ([], [])


def _sources(folder: Path) -> list[str]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return sorted(str(p.relative_to(folder)) for p in files if "__pycache__" not in p.parts)
