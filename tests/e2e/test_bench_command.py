"""`weir bench` against a whole stack."""

import asyncio
import json
from pathlib import Path

import pytest

from tests.cli.command import weir
from tests.e2e.deployment import Deployment

pytestmark = pytest.mark.asyncio(loop_scope="session")

_LOAD = (
    "--requests", "8", "--request-rate", "20", "--input-len", "uniform:4:12", "--output-len", "5",
    "--ids", "1:200", "--endpoint", "completions", "--warmups", "1", "-o", "json",
)  # fmt: skip


@pytest.mark.parametrize("door", ["http", "grpc"])
async def test_both_doors_answer_the_same_load_in_full(
    pair: Deployment, door: str, tmp_path: Path
) -> None:
    url = pair.base_url if door == "http" else pair.grpc_address
    keys = [("--key", f"{tenant}={pair.secret(tenant)}") for tenant in ("acme", "globex")]
    ended = await asyncio.to_thread(
        weir, "bench", "--url", url, *keys[0], *keys[1], *_LOAD, "--save", str(tmp_path / door),
        "--goodput", "ttft:60000,itl:60000",
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    numbers = json.loads(ended.stdout)
    assert (numbers["requests"], numbers["completed"], numbers["good"]) == (8, 8, 8)
    assert numbers["output_tokens"] == 40
    assert 32 <= numbers["prompt_tokens"] <= 96
    assert {name: one["completed"] for name, one in numbers["tenants"].items()} == {
        "acme": 4, "globex": 4,
    }  # fmt: skip
    lines = (tmp_path / door / "requests.jsonl").read_text().splitlines()
    assert [json.loads(line)["output_tokens"] for line in lines] == [5] * 8
    page = (tmp_path / door / "report.html").read_text()
    assert "latency.svg" in page
    assert pair.secret("acme") not in page + ended.stdout + ended.stderr


async def test_a_key_that_nobody_has_is_told_before_the_load(pair: Deployment) -> None:
    ended = await asyncio.to_thread(
        weir, "bench", "--url", pair.base_url, "--key", "wr_test_wrong", *_LOAD
    )
    assert ended.returncode == 1
    assert "401" in ended.stderr
    assert "wr_test_wrong" not in ended.stderr
