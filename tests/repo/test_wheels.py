"""Both distributions build, and hold what they should and nothing else."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOTS = {
    ".": {
        "weir_cli",
        "weir_core",
        "weir_gateway",
        "weir_ratelimiter",
        "weir_scheduler",
        "weir_sim",
        "weir_worker",
    },
    "libs/weir_client": {"weir", "weir_client"},
}


@pytest.mark.parametrize("project", ROOTS)
def test_a_wheel_builds(project: str, repo_root: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation"]
    done = subprocess.run(
        [*command, "--wheel-dir", str(tmp_path), str(repo_root / project)],
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    top = {name.split("/")[0] for name in names if ".dist-info/" not in name}
    assert top == ROOTS[project]
    assert [name for name in names if "__pycache__" in name] == []
    assert project != "." or "weir_gateway/directory/plans.yaml" in names
    assert project != "." or "weir_gateway/console/static/index.html" in names
    assert project != "." or "weir_ratelimiter/store/redis/scripts/reserve.lua" in names
    for root in ROOTS[project] - {"weir_cli"}:
        assert f"{root}/py.typed" in names
