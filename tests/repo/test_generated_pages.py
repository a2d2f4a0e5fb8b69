"""The generated parts of docs/ are what the code says."""

import subprocess
import sys
from pathlib import Path


def test_the_pages_are_up_to_date(repo_root: Path) -> None:
    done = subprocess.run(
        [sys.executable, "tools/generate_docs.py", "--check"],
        cwd=repo_root,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
