"""The ratelimiter as a process: kill -9 in the middle of work, start, stop, bad starts."""

import asyncio
import random
from dataclasses import dataclass, field
from pathlib import Path

import grpc
import httpx2

from tests.ratelimiter.account import directory, limit, parallel
from tests.ratelimiter.directory_server import directory_server
from tests.ratelimiter.process import START_TIMEOUT_S, LimiterProcess, limiter_process, spawn
from weir.common.v1.lifecycle_pb2 import OUTCOME_OK
from weir.common.v1.subject_pb2 import Subject
from weir.common.v1.usage_pb2 import USAGE_QUALITY_EXACT, Usage
from weir.directory.v1 import directory_pb2
from weir.ratelimiter.v1 import ratelimiter_service_pb2 as pb
from weir.ratelimiter.v1.ledger_service_pb2 import GetUsageRequest
from weir.ratelimiter.v1.ledger_service_pb2_grpc import LedgerServiceStub

CAPACITY = 10**9
# Practically without refill, so that levels can be compared to the unit.
YEAR_S = 366 * 24 * 3600
ACME = Subject(tenant_id="acme", user_id="bob", api_key_id="key1", model="m")


def slow(limit_id: str, resource: directory_pb2.LimitResource.ValueType) -> directory_pb2.Limit:
    kind = directory_pb2.LIMIT_KIND_BUCKET
    return limit(limit_id, kind, resource, CAPACITY, refill=1, period_s=YEAR_S)


SNAPSHOT = directory(
    slow("tokens", directory_pb2.LIMIT_RESOURCE_TOKENS),
    slow("input", directory_pb2.LIMIT_RESOURCE_INPUT_TOKENS),
    slow("requests", directory_pb2.LIMIT_RESOURCE_REQUESTS),
    parallel(10_000),
)


@dataclass
class Job:
    """One request, driven to where it got."""

    name: str
    prompt: int
    output: int
    completion: int
    settles: bool
    record: bytes = b""
    reserved: bool = False
    settled: bool = False

    async def advance(self, stub: object) -> None:
        """Do what is left to do; every step may be repeated."""
        if not self.reserved:
            reply = await stub.Reserve(  # type: ignore[attr-defined]
                pb.ReserveRequest(
                    request_id=self.name,
                    subject=ACME,
                    prompt_tokens=self.prompt,
                    max_new_tokens=self.output,
                ),
                timeout=5,
            )
            self.record, self.reserved = reply.record, True
        if self.settles and not self.settled:
            usage = Usage(prompt_tokens=self.prompt, completion_tokens=self.completion)
            await stub.Settle(  # type: ignore[attr-defined]
                pb.SettleRequest(
                    record=self.record,
                    usage=usage,
                    usage_quality=USAGE_QUALITY_EXACT,
                    outcome=OUTCOME_OK,
                ),
                timeout=5,
            )
            self.settled = True

    @property
    def tokens(self) -> int:
        return self.prompt + (self.completion if self.settled else self.output)


@dataclass
class Load:
    """Jobs by many clients, until the process is gone."""

    jobs: list[Job] = field(default_factory=list)
    dice: random.Random = field(default_factory=lambda: random.Random(7))

    def job(self) -> Job:
        draw = self.dice.randint
        job = Job(f"job{len(self.jobs)}", draw(1, 99), draw(1, 99), draw(0, 120), draw(0, 3) > 0)
        self.jobs.append(job)
        return job

    async def client(self, stub: object) -> None:
        while True:
            try:
                await self.job().advance(stub)
            except grpc.aio.AioRpcError:
                return


async def ready(process: LimiterProcess) -> None:
    """Wait until the directory has reached it."""
    async with asyncio.timeout(20):
        while True:
            try:
                await process.stub.Explain(pb.ExplainRequest(subject=ACME), timeout=2)
            except grpc.aio.AioRpcError:
                await asyncio.sleep(0.05)
            else:
                return


async def levels(process: LimiterProcess) -> dict[str, tuple[int, int]]:
    reply = await process.stub.Explain(pb.ExplainRequest(subject=ACME), timeout=5)
    return {s.limit_id.split("/")[1]: (s.remaining, s.held) for s in reply.limits}


async def test_kill_9_in_the_middle_of_load_loses_and_mints_nothing(tmp_path: Path) -> None:
    load = Load()
    # No lease lapses, however slow the machine is.
    long = "--ttl-s=600"
    async with directory_server() as (served, address):
        await served.publish(SNAPSHOT)
        for least in (150, 300, 450):
            async with limiter_process(tmp_path, address, long, "--compact-bytes=65536") as process:
                await ready(process)
                clients = [asyncio.create_task(load.client(process.stub)) for _ in range(16)]
                async with asyncio.timeout(40):
                    while len(load.jobs) < least:
                        await asyncio.sleep(0.01)
                await process.kill()
                await asyncio.gather(*clients)
        async with limiter_process(tmp_path, address, long) as process:
            await ready(process)
            before = await levels(process)
            known = [job for job in load.jobs if job.reserved]
            assert len(known) >= 400
            # What got an answer is there; of what got none (one call of 48 clients), each is or
            # is not, and being repeated it is.
            unanswered = len(load.jobs) - len(known)
            assert 0 <= CAPACITY - before["requests"][0] - len(known) <= unanswered
            for job in load.jobs:
                await job.advance(process.stub)
            after = await levels(process)
            running = [job for job in load.jobs if not job.settled]
            assert after["requests"] == (CAPACITY - len(load.jobs), len(running))
            assert after["tokens"] == (
                CAPACITY - sum(job.tokens for job in load.jobs),
                sum(job.tokens for job in running),
            )
            assert after["input"][0] == CAPACITY - sum(job.prompt for job in load.jobs)
            assert after["parallel"] == (10_000 - len(running), len(running))
            # Once more, and levels are equal to the unit.
            await process.kill()
        async with limiter_process(tmp_path, address, long) as process:
            await ready(process)
            assert await levels(process) == after
            assert await process.terminate() == 0


async def test_sweep_health_and_metrics_of_a_process(tmp_path: Path) -> None:
    async with directory_server() as (served, address):
        await served.publish(SNAPSHOT)
        more = ("--ttl-s=1", "--sweep-interval-s=0.1")
        async with limiter_process(tmp_path, address, *more) as process:
            await ready(process)
            job = Job("orphan", 10, 20, 0, settles=False)
            await job.advance(process.stub)
            assert (await levels(process))["tokens"] == (CAPACITY - 30, 30)
            async with asyncio.timeout(10):
                while (await levels(process))["tokens"] != (CAPACITY, 0):
                    await asyncio.sleep(0.05)
            # Writes what waits for the ledger before it answers.
            await LedgerServiceStub(process.channel).GetUsage(GetUsageRequest())
            async with httpx2.AsyncClient() as http:
                url = f"http://{process.ready['metrics']}/metrics"
                metrics = (await http.get(url)).text
            for line in (
                'weir_ratelimiter_decisions_total{operation="reserve",outcome="admitted"} 1.0',
                'weir_ratelimiter_decisions_total{operation="expire",outcome="expired"} 1.0',
                "weir_ratelimiter_open_reservations 0.0",
                "weir_ratelimiter_held_leases 0.0",
                "weir_ratelimiter_outbox_events 0.0",
                'weir_ratelimiter_ledger_rows_total{kind="charge"} 1.0',
            ):
                assert line in metrics
            assert await process.terminate() == 0


async def test_a_start_that_fails_says_why_in_one_line(tmp_path: Path) -> None:
    bad_starts = [
        (tmp_path, (), b"another ratelimiter uses", 1),
        (tmp_path / "b", ("--cluster-token=",), b"set WEIR_CLUSTER_TOKEN", 1),
        (tmp_path / "b", ("--store=redis://u:s3cret@h:x",), b"store is redis://...; it must", 1),
        (tmp_path / "b", ("--ttl-s=0",), b"ttl_s is '0'; it must be greater than or equal", 2),
    ]
    async with directory_server() as (_, address), limiter_process(tmp_path, address):
        started = [await spawn(folder, address, *more) for folder, more, _, _ in bad_starts]
        for process, (_, _, told, code) in zip(started, bad_starts, strict=True):
            _, stderr = await asyncio.wait_for(process.communicate(), START_TIMEOUT_S)
            assert process.returncode == code
            assert told in stderr.strip().splitlines()[-1]
            assert b"Traceback" not in stderr
            assert b"s3cret" not in stderr
