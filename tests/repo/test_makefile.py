"""What `make` does before there is an environment."""

import os
import re
import subprocess
import sys
from pathlib import Path

TARGETS = {
    *("run", "test", "soak", "lint", "types", "format", "proto", "clean"),
    *("docs", "docs-serve"),
    *("bench-stack", "bench-limiter", "bench-simulation", "bench-engine", "bench-gpu"),
    *("bench-fairness", "bench-gateway", "bench-seeing"),
    *("peers", "kernels"),
}


def make(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("MAKE")}
    return subprocess.run(
        ["make", *arguments], cwd=root, capture_output=True, text=True, timeout=30, env=environment
    )


def test_help_is_the_default_and_lists_every_target(repo_root: Path) -> None:
    listed = set(re.findall(r"^  make ([\w-]+)", make(repo_root).stdout, re.MULTILINE))
    assert listed == TARGETS | {"help"}


def test_an_old_python_is_one_line_that_says_what_to_do(repo_root: Path, tmp_path: Path) -> None:
    old = tmp_path / "python3.9"
    old.write_text('#!/bin/sh\n[ "$1" = --version ] && echo Python 3.9.2 && exit 0\nexit 1\n')
    old.chmod(0o755)
    done = make(repo_root, "run", f"VENV={tmp_path / 'venv'}", f"PYTHON={old}")
    lines = [line for line in done.stderr.splitlines() if not line.startswith("make: ***")]
    assert done.returncode == 2
    assert lines == [
        "error: Tokenweir needs Python 3.11 or newer, found Python 3.9.2; install one, or name it: "
        "make PYTHON=/path/to/python3.11"
    ]
    assert not (tmp_path / "venv").exists()


def test_installing_only_what_running_needs(repo_root: Path, tmp_path: Path) -> None:
    plan = make(repo_root, "-n", "run", f"VENV={tmp_path}", "TORCH_INDEX=https://x.example/cpu")
    assert "'.[worker,sim]'" in plan.stdout
    assert "dev" not in plan.stdout
    assert '--no-deps --index-url "https://x.example/cpu" torch' in plan.stdout


def test_a_second_run_installs_nothing(repo_root: Path, tmp_path: Path) -> None:
    for stamp in (".created", ".installed-torch", ".installed-run", ".installed-dev"):
        (tmp_path / stamp).touch()
    plan = make(repo_root, "-n", "run", "test", f"VENV={tmp_path}")
    assert "pip" not in plan.stdout
    assert "-m weir_cli up" in plan.stdout


def test_the_python_of_these_tests_is_new_enough(repo_root: Path) -> None:
    script = repo_root / "tools" / "find_python.sh"
    done = subprocess.run(
        ["sh", str(script)],
        capture_output=True,
        text=True,
        timeout=30,
        env={**os.environ, "PYTHON": sys.executable},
    )
    assert done.stdout.strip() == sys.executable
