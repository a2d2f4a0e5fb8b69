"""The example of docs/batches.md."""

import asyncio
import os
import re
import sys
from pathlib import Path

import pytest

from tests.gateway.batches.site import BatchSite
from tests.gateway.harness import MODEL

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_the_example_works(site: BatchSite, repo_root: Path, tmp_path: Path) -> None:
    page = (repo_root / "docs" / "batches.md").read_text()
    (example,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    program = example.replace("127.0.0.1:8000", site.gateway.app.http_address)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", program.replace("smollm2", MODEL)),
        stdout=asyncio.subprocess.PIPE,
        cwd=tmp_path,
        env=os.environ | {"WEIR_API_KEY": site.gateway.key.secret},
    )
    async with asyncio.timeout(100):
        printed, _ = await process.communicate()
    lines = printed.decode().splitlines()
    assert lines[0] == "completed BatchRequestCounts(completed=3, failed=0, total=3)"
    assert [line.split()[0] for line in lines[1:] if line.startswith("q")] == ["q0", "q1", "q2"]
