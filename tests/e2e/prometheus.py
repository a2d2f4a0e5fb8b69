"""A real Prometheus that scrapes a stack and evaluates the rules of deploy/."""

import asyncio
import shutil
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml

from tests.e2e.promql import RULES
from tests.e2e.wait import until


@dataclass
class Prometheus:
    """What answers queries."""

    http: httpx2.AsyncClient

    async def get(self, path: str, **params: str) -> Any:
        """The data of an answer of the API; AssertionError with its error if it is one."""
        answer = (await self.http.get(f"/api/v1/{path}", params=params)).json()
        assert answer["status"] == "success", (params, answer)
        return answer["data"]

    async def query(self, expr: str) -> list[tuple[dict[str, str], float]]:
        """Labels and value of each series that an expression has now."""
        data = await self.get("query", query=expr)
        if data["resultType"] == "scalar":
            return [({}, float(data["result"][1]))]
        return [(one["metric"], float(one["value"][1])) for one in data["result"]]

    async def scrapes(self) -> float:
        """How often the target that was scraped least has been; 0 if one failed last."""
        counts = await self.query('min(count_over_time(up{job="tokenweir"}[1h]))')
        states = await self.query('min(up{job="tokenweir"})')
        return counts[0][1] if counts and states and states[0][1] == 1 else 0.0

    async def scraped_again(self, times: int = 2) -> None:
        """Waits until every target has been scraped so often from now on."""
        before = await self.scrapes()
        await until(self.scrapes, lambda now: now >= before + times, "scrapes", 60)


@asynccontextmanager
async def running_prometheus(folder: Path, targets: Path) -> AsyncIterator[Prometheus]:
    """Scrapes what `targets` names, each second; skips the test without Prometheus.

    Args:
        folder: for its data.
        targets: file of `file_sd_configs`.
    """
    program = shutil.which("prometheus")
    if program is None:
        pytest.skip("prometheus is not installed")
    config = folder / "prometheus.yml"
    config.write_text(yaml.safe_dump(_config(targets)))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with (folder / "log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            program,
            f"--config.file={config}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
            "--enable-feature=exemplar-storage",
            stdout=log,
            stderr=log,
        )
    try:
        async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=30) as http:
            prometheus = Prometheus(http)
            await until(lambda: _ready(http, process), bool, "Prometheus to be ready", 60)
            await until(prometheus.scrapes, lambda count: count >= 2, "first scrapes", 60)
            yield prometheus
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def _ready(http: httpx2.AsyncClient, process: asyncio.subprocess.Process) -> bool:
    assert process.returncode is None, "Prometheus ended; its log has the reason"
    try:
        return bool((await http.get("/-/ready")).status_code == 200)
    except httpx2.TransportError:
        return False


def _config(targets: Path) -> dict[str, Any]:
    return {
        "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "2s"},
        "storage": {"exemplars": {"max_exemplars": 10_000}},
        "rule_files": [str(RULES / "*.yml")],
        "scrape_configs": [
            {
                "job_name": "tokenweir",
                "file_sd_configs": [{"files": [str(targets)], "refresh_interval": "1s"}],
            }
        ],
    }
