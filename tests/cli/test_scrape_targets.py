"""The file that Prometheus follows."""

import asyncio
import json
from contextlib import suppress
from pathlib import Path

from tests.e2e.wait import until
from weir_cli.stack.scrape_targets import FILE, ScrapeTargets

READY = {
    "gateway": {"http": "127.0.0.1:8000", "grpc": "127.0.0.1:8001"},
    "scheduler-2": {"grpc": "127.0.0.1:8004", "metrics": "127.0.0.1:9004"},
    "worker-1": {"grpc": "127.0.0.1:8010", "metrics": "127.0.0.1:9010"},
    "worker-2": {},
}


def targets(folder: Path) -> dict[str, dict[str, str]]:
    """Labels by address."""
    groups = json.loads((folder / FILE).read_text())
    return {group["targets"][0]: group["labels"] for group in groups}


def test_every_process_that_is_ready_is_a_target(tmp_path: Path) -> None:
    ScrapeTargets(tmp_path, lambda: READY, encrypted=False).write()
    assert targets(tmp_path) == {
        "127.0.0.1:8000": {"service": "gateway", "instance": "gateway"},
        "127.0.0.1:9004": {"service": "scheduler", "instance": "scheduler-2"},
        "127.0.0.1:9010": {"service": "worker", "instance": "worker-1"},
    }


def test_a_gateway_with_tls_is_asked_by_https_and_the_others_are_not(tmp_path: Path) -> None:
    ScrapeTargets(tmp_path, lambda: READY, encrypted=True).write()
    schemes = {address: labels.get("__scheme__") for address, labels in targets(tmp_path).items()}
    assert schemes == {"127.0.0.1:8000": "https", "127.0.0.1:9004": None, "127.0.0.1:9010": None}


async def test_it_follows_what_starts_and_is_written_when_the_folder_can_be_again(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "later"
    ready = dict(READY)
    kept = ScrapeTargets(folder, lambda: ready, encrypted=False)
    kept.period_s = 0.01
    running = asyncio.create_task(kept.run())
    try:
        await asyncio.sleep(0)
        folder.mkdir()
        await until(lambda: _exists(folder), bool, "the file")
        ready["worker-2"] = {"metrics": "127.0.0.1:9011"}
        await until(lambda: _addresses(folder), lambda seen: "127.0.0.1:9011" in seen, "worker-2")
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


async def _exists(folder: Path) -> bool:
    return (folder / FILE).exists()


async def _addresses(folder: Path) -> set[str]:
    return set(targets(folder))
