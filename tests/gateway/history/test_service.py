"""HistoryService of a whole gateway: what it counts, and who is told how much of it."""

import asyncio
from typing import Any

import grpc
import pytest
import yaml

from tests.gateway.harness import Gateway, running_gateway
from weir.gateway.v1 import history_service_pb2 as pb
from weir.gateway.v1.history_service_pb2_grpc import HistoryServiceStub
from weir_core.errors import Reason
from weir_core.errors.status import from_rpc_error

pytestmark = pytest.mark.asyncio(loop_scope="module")

SECRET = "of-an-administrator-0123456789abcdef"
_ADMIN = (("authorization", f"Bearer {SECRET}"),)


@pytest.fixture(scope="module")
def settings() -> dict[str, Any]:
    return {"admin_secret": SECRET, "history_step_s": 1.0}


async def test_it_counts_requests_to_the_token(tmp_path: Any, settings: dict[str, Any]) -> None:
    async with running_gateway(tmp_path, **settings) as gateway:
        answers = [await gateway.chat(max_tokens=5) for _ in range(4)]
        refused = await gateway.chat(max_tokens=10**9)
        assert refused.status_code == 400
        usages = [answer.json()["usage"] for answer in answers]
        flow = await _flow(gateway, ended=4)
        assert flow.arrivals == 4
        assert flow.output_tokens == sum(usage["completion_tokens"] for usage in usages)
        assert flow.prompt_tokens == sum(usage["prompt_tokens"] for usage in usages)
        assert flow.ttft.count == flow.queue_time.count == flow.prefill_time.count == 4
        assert flow.ttft.sum == pytest.approx(
            flow.intake_time.sum + flow.queue_time.sum + flow.prefill_time.sum, abs=1e-4
        )
        assert [one.outcome for one in flow.ended] == ["ok"]
        told = await _history(gateway, _ADMIN)
        (pool,) = next(sample.pools for sample in told.samples if sample.pools)
        assert pool.HasField("min_workers")
        assert pool.min_workers == 0
        refusals = [one for sample in told.samples for f in sample.flows for one in f.refused]
        assert sum(one.count for one in refusals) == 1


async def test_a_tenant_is_told_of_itself_alone(tmp_path: Any, settings: dict[str, Any]) -> None:
    async with running_gateway(tmp_path, **settings) as gateway:
        await gateway.chat(max_tokens=5)
        await _flow(gateway, ended=1)
        theirs = await _history(gateway, (("authorization", f"Bearer {gateway.other_key.secret}"),))
        assert theirs.samples
        for sample in theirs.samples:
            assert not [*sample.flows, *sample.depths, *sample.limits]
            assert not [*sample.pools, *sample.workers]
            assert not sample.HasField("parts")
        mine = await _history(gateway, gateway.metadata)
        assert {flow.tenant_id for sample in mine.samples for flow in sample.flows} == {"acme"}
        assert not any(sample.workers or sample.pools for sample in mine.samples)


async def test_a_watch_begins_at_once_and_goes_on(tmp_path: Any, settings: dict[str, Any]) -> None:
    async with running_gateway(tmp_path, **settings) as gateway:
        watch = _watch(gateway, _ADMIN)
        async with asyncio.timeout(20):
            seen = [(await watch.read()).sample for _ in range(2)]
        watch.cancel()
        assert all(sample.far_read for sample in seen)
        assert seen[1].duration.ToMicroseconds() >= 900_000
        assert {one.view.registration.worker_id for one in seen[-1].workers} == {
            worker.worker_id for worker in gateway.workers
        }


async def test_a_watch_ends_when_the_key_is_revoked(
    tmp_path: Any, settings: dict[str, Any]
) -> None:
    async with running_gateway(tmp_path, **settings) as gateway:
        watch = _watch(gateway, gateway.metadata)
        await watch.read()
        document = yaml.safe_load(gateway.directory.read_text())
        for tenant in document["tenants"]:
            for key in tenant["keys"]:
                key["revoked"] = True
        await gateway.reload(document)
        async with asyncio.timeout(30):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await _read_all(watch)
        told = from_rpc_error(caught.value, unavailable_as=Reason.INTERNAL)
        assert told.reason is Reason.API_KEY_REVOKED


async def test_a_tenant_watches_so_often_and_keeps_nobody_out(
    tmp_path: Any, settings: dict[str, Any]
) -> None:
    async with running_gateway(tmp_path, **settings) as gateway:
        watches = [_watch(gateway, gateway.metadata) for _ in range(9)]
        async with asyncio.timeout(30):
            begun = await asyncio.gather(
                *(watch.read() for watch in watches), return_exceptions=True
            )
            refused = [one for one in begun if isinstance(one, grpc.aio.AioRpcError)]
            assert len(refused) == 1
            told = from_rpc_error(refused[0], unavailable_as=Reason.INTERNAL)
            assert told.reason is Reason.RATE_LIMIT_EXCEEDED
            for watch in watches[1:]:
                watch.cancel()
            other = (("authorization", f"Bearer {gateway.other_key.secret}"),)
            for metadata in (other, _ADMIN):
                assert await _watch(gateway, metadata).read()


async def test_bad_lengths_of_time_name_the_bound(tmp_path: Any, settings: dict[str, Any]) -> None:
    async with running_gateway(tmp_path, **settings) as gateway:
        request = pb.GetHistoryRequest()
        request.window.FromSeconds(86_401)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await HistoryServiceStub(gateway.channel).GetHistory(request, metadata=_ADMIN)
        told = from_rpc_error(caught.value, unavailable_as=Reason.INTERNAL)
        assert (told.reason, told.field) == (Reason.INVALID_FIELD, "window")
        assert "86400" in told.message


async def _read_all(watch: Any) -> None:
    while await watch.read():
        pass


def _watch(gateway: Gateway, metadata: Any) -> Any:
    request = pb.WatchHistoryRequest()
    request.step.FromSeconds(1)
    stub: Any = HistoryServiceStub(gateway.channel)
    return stub.WatchHistory(request, metadata=metadata)


async def _history(gateway: Gateway, metadata: Any) -> pb.GetHistoryResponse:
    stub: Any = HistoryServiceStub(gateway.channel)
    told: pb.GetHistoryResponse = await stub.GetHistory(pb.GetHistoryRequest(), metadata=metadata)
    return told


async def _flow(gateway: Gateway, *, ended: int) -> pb.RequestFlow:
    """All samples as one, once so many requests have ended in it."""
    request = pb.GetHistoryRequest()
    request.step.FromSeconds(86_400)
    stub: Any = HistoryServiceStub(gateway.channel)
    async with asyncio.timeout(20):
        while True:
            told = await stub.GetHistory(request, metadata=_ADMIN)
            flows: list[pb.RequestFlow] = [
                f for sample in told.samples for f in sample.flows if f.tenant_id == "acme"
            ]
            if flows and sum(one.count for one in flows[0].ended) >= ended:
                return flows[0]
            await asyncio.sleep(0.05)
