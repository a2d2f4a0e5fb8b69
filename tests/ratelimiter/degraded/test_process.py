"""The whole process on a Valkey that comes and goes: what callers, scrapers and logs are told."""

from pathlib import Path

import grpc
import httpx2

from tests.ratelimiter.account import directory, limit, parallel
from tests.ratelimiter.degraded.live import eventually
from tests.ratelimiter.directory_server import directory_server
from tests.ratelimiter.process import LimiterProcess, limiter_process
from tests.ratelimiter.valkey import running_valkey
from weir.common.v1.lifecycle_pb2 import OUTCOME_OK
from weir.common.v1.subject_pb2 import Subject
from weir.common.v1.usage_pb2 import USAGE_QUALITY_EXACT, Usage
from weir.directory.v1 import directory_pb2
from weir.ratelimiter.v1 import ratelimiter_service_pb2 as pb

ACME = Subject(tenant_id="acme", user_id="bob", api_key_id="key1", model="m")
TOKENS = limit(
    "tokens",
    directory_pb2.LIMIT_KIND_BUCKET,
    directory_pb2.LIMIT_RESOURCE_TOKENS,
    10_000,
    refill=1,
    period_s=365 * 24 * 3600,
)
SNAPSHOT = directory(TOKENS, parallel(10))


async def explain(process: LimiterProcess) -> pb.ExplainResponse:
    reply = await process.stub.Explain(pb.ExplainRequest(subject=ACME), timeout=5)
    assert isinstance(reply, pb.ExplainResponse)
    return reply


async def ready(process: LimiterProcess) -> None:
    async def has_limits() -> bool:
        try:
            return bool((await explain(process)).limits)
        except grpc.aio.AioRpcError:
            return False

    await eventually(has_limits)


async def reserve(process: LimiterProcess, request_id: str) -> pb.ReserveResponse:
    ask = pb.ReserveRequest(
        request_id=request_id, subject=ACME, prompt_tokens=10, max_new_tokens=20
    )
    reply = await process.stub.Reserve(ask, timeout=5)
    assert isinstance(reply, pb.ReserveResponse)
    return reply


async def settle(process: LimiterProcess, record: bytes) -> None:
    usage = Usage(prompt_tokens=10, completion_tokens=5)
    await process.stub.Settle(
        pb.SettleRequest(
            record=record, usage=usage, usage_quality=USAGE_QUALITY_EXACT, outcome=OUTCOME_OK
        ),
        timeout=5,
    )


async def test_a_process_through_an_outage_and_its_own_kill(tmp_path: Path) -> None:
    async with directory_server() as (served, address):
        await served.publish(SNAPSHOT)
        with running_valkey(tmp_path / "valkey") as valkey:
            more = (f"--store={valkey.url}", "--store-timeout-s=1")
            journal = tmp_path / "journal"
            async with limiter_process(journal, address, *more) as process:
                await ready(process)
                there = await reserve(process, "there")
                assert there.limiter_mode == pb.LIMITER_MODE_ENFORCED
                valkey.kill()
                here = await reserve(process, "here")
                assert here.limiter_mode == pb.LIMITER_MODE_DEGRADED
                assert (await explain(process)).limiter_mode == pb.LIMITER_MODE_DEGRADED
                await settle(process, here.record)
                async with httpx2.AsyncClient() as http:
                    metrics = (await http.get(f"http://{process.ready['metrics']}/metrics")).text
                for line in (
                    "weir_ratelimiter_mode 1.0",
                    'weir_ratelimiter_degraded_decisions_total{operation="reserve"} 1.0',
                    "weir_ratelimiter_degraded_seconds_total",
                    "weir_ratelimiter_pending_replays 1.0",
                    "weir_ratelimiter_replicas 1.0",
                ):
                    assert line in metrics
                await process.kill()
            async with limiter_process(journal, address, *more) as process:
                await ready(process)
                await settle(process, there.record)
                valkey.start()

                async def exact() -> bool:
                    told = await explain(process)
                    levels = {s.limit_id: s.remaining for s in told.limits}
                    return told.limiter_mode == pb.LIMITER_MODE_ENFORCED and levels == {
                        "tenant:acme/tokens": 10_000 - 30,
                        "tenant:acme/parallel": 10,
                    }

                await eventually(exact)
                assert await process.terminate() == 0
