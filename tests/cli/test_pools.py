"""`weir pools` beside a real scheduler."""

import asyncio
import json

import pytest

from tests.scheduler.live import (
    TOKEN,
    LiveScheduler,
    default_snapshot,
    eventually,
    live_scheduler,
)
from weir.directory.v1 import directory_pb2 as directory
from weir.scheduler.v1.scheduler_service_pb2 import FirstToken, ListQueueRequest, QueueReason
from weir_cli.commands.pools import pools
from weir_cli.output import Output


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEIR_CLUSTER_TOKEN", TOKEN.get_secret_value())


def snapshot() -> directory.Snapshot:
    """Model `m` with a pool for long prompts; tenant `acme` with a target."""
    snapshot = default_snapshot(max_concurrent_requests=1, long_context_threshold=100)
    snapshot.pools.add(name="usual", interactive_share=3, batch_share=1)
    snapshot.pools.add(name="far", length=directory.PROMPT_LENGTH_LONG, profiles=["big"])
    snapshot.models[0].pool = "usual"
    snapshot.models[0].further_pools.append("far")
    snapshot.tenants[0].policy.slo.ttft_ms = 60_000
    return snapshot


async def shown(
    live: LiveScheduler, capsys: pytest.CaptureFixture[str], output: Output = Output.TEXT
) -> str:
    capsys.readouterr()
    await asyncio.to_thread(pools, tenant="", output=output, address=live.app.address)
    printed = capsys.readouterr().out.splitlines()
    return "\n".join(line for line in printed if "[info " not in line)


async def test_pools_what_waits_and_targets_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    async with live_scheduler(snapshot()) as live:
        worker = await live.worker("w1")
        gateway = await live.gateway()
        await gateway.enqueue("runs")
        dispatched = await gateway.dispatched("runs")
        await worker.run(dispatched, 1)
        first = FirstToken(attempt=dispatched.attempt)
        await gateway.send(first_token=first)
        await gateway.enqueue("waits")
        await gateway.enqueue("long", prompt_tokens=200)
        await eventually(lambda: live.app.scheduler.waiting == 2)
        rows = [line.split() for line in (await shown(live, capsys)).splitlines() if line]
        usual = next(row for row in rows if row[:2] == ["usual", "m"] and "short" in row)
        assert usual[2] == "any"
        assert usual[5:8] == ["1", "of", "1"]
        assert usual[8:10] == ["interactive", "short"]
        tenant = next(
            row for row in rows if row[:5] == ["usual", "m", "interactive", "short", "acme"]
        )
        assert tenant[5:9] == ["1", "100", "%", "1"]
        target = next(row for row in rows if row[:2] == ["acme", "ttft"])
        assert "100.0" in target
        message = json.loads(await shown(live, capsys, Output.JSON))
        workers = {pool["pool"]: pool["live_workers"] for pool in message["pools"]}
        assert workers == {"usual": 1, "far": 0}
        assert message["slos"][0]["windows"][0]["good"] == "1"


async def test_the_long_pool_reasons_and_gauges_are_seen_from_outside(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async with live_scheduler(snapshot()) as live:
        await live.worker("w1")
        await live.worker("w2", profile="big")
        gateway = await live.gateway()
        await gateway.enqueue("short")
        await gateway.enqueue("long", prompt_tokens=200)
        assert (await gateway.dispatched("short")).worker_id == "w1"
        assert (await gateway.dispatched("long")).worker_id == "w2"
        await gateway.enqueue("waits")
        await eventually(lambda: live.app.scheduler.waiting == 1)
        queue = await live.stub.ListQueue(ListQueueRequest())
        assert [request.reason for request in queue.requests] == [
            QueueReason.QUEUE_REASON_WORKER_FULL
        ]
        assert "far" in await shown(live, capsys)
        labels = {"model": "m", "pool": "far"}
        drain = live.telemetry.registry.get_sample_value(
            "weir_scheduler_drain_tokens_per_second", labels
        )
        assert drain == 0.0


async def test_a_scheduler_without_pools_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    async with live_scheduler() as live:
        assert "no pools" in await shown(live, capsys)
