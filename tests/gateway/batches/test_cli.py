"""`weir batches` against a gateway."""

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest

from tests.gateway.batches.site import BatchSite, chat_lines

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def weir(site: BatchSite, *arguments: str, fails: bool = False) -> str:
    """What a command prints, or what it fails with."""
    reach = {
        "WEIR_URL": f"http://{site.gateway.app.http_address}",
        "WEIR_API_KEY": site.gateway.key.secret,
    }
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "weir_cli", "batches", *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=os.environ | reach,
    )
    async with asyncio.timeout(60):
        told, failure = await process.communicate()
    assert process.returncode == int(fails), failure
    return (failure if fails else told).decode()


async def test_from_a_file_into_a_file(site: BatchSite, tmp_path: Path) -> None:
    lines, output = tmp_path / "lines.jsonl", tmp_path / "output.jsonl"
    lines.write_text("\n".join(json.dumps(line) for line in chat_lines(4)))
    batch = json.loads(await weir(site, "create", str(lines), "--wait", "-o", "json"))
    assert batch["status"] == "completed"
    await weir(site, "download", batch["id"], "--to", str(output))
    found = [json.loads(line)["custom_id"] for line in output.read_text().splitlines()]
    assert found == [f"line-{n}" for n in range(4)]
    assert sorted(os.listdir(tmp_path)) == ["lines.jsonl", "output.jsonl"]
    told = await weir(site, "download", batch["id"], "--errors", fails=True)
    assert told == "error: the batch is completed and has no error file\n"


async def test_a_batch_that_is_waited_for_and_fails_is_a_failure(
    site: BatchSite, tmp_path: Path
) -> None:
    lines = tmp_path / "lines.jsonl"
    lines.write_text("{")
    await weir(site, "create", str(lines), "--wait", fails=True)


async def test_nobody_at_the_door_is_told_with_what_to_do(site: BatchSite) -> None:
    told = await weir(site, "list", "--url", "http://127.0.0.1:1", fails=True)
    assert "does a gateway run" in told
    assert "WEIR_URL" in told


async def test_bad_lines_are_told(site: BatchSite) -> None:
    made = await site.create([b"{"])
    await site.ended(made.id, "failed")
    assert "line 1: invalid_json_line" in await weir(site, "get", made.id)
