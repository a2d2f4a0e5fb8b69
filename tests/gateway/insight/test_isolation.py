"""A tenant is told of its own requests and blocks alone; the administrator of all."""

from typing import Any

import grpc
import pytest
from google.protobuf.json_format import ParseDict
from google.protobuf.timestamp_pb2 import Timestamp

from tests.gateway.harness import Gateway
from tests.gateway.insight.asking import ADMIN_SECRET, bearer, explain, listed, stub
from weir.common.v1.lifecycle_pb2 import Outcome
from weir.gateway.v1.insight_service_pb2 import (
    Explanation,
    GetConfigurationRequest,
    GetKvMapRequest,
    RequestState,
)
from weir.process.v1.process_service_pb2 import SettingSource
from weir.worker.v1.worker_service_pb2 import KvBlockState

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def refused(gateway: Gateway, request_id: str, secret: str) -> tuple[str, str]:
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await explain(gateway, request_id, secret)
    details = str(error.value.details()).replace(request_id, "ID")
    return error.value.code().name, details


async def test_an_id_of_another_tenant_is_none(gateway: Gateway) -> None:
    acme, globex = gateway.key.secret, gateway.other_key.secret
    answered = str((await gateway.chat(max_tokens=2)).headers["x-request-id"])
    bad = str((await gateway.chat(max_tokens=0)).headers["x-request-id"])
    for request_id in (answered, bad):
        own = await explain(gateway, request_id, acme)
        assert own.subject.tenant_id == "acme"
        assert (await explain(gateway, request_id)).request_id == request_id
        nobodys = await refused(gateway, "req_" + "0" * 32, globex)
        assert await refused(gateway, request_id, globex) == nobodys
        assert nobodys[0] == "NOT_FOUND"


async def test_over_http_a_key_reads_what_it_reads_over_grpc(gateway: Gateway) -> None:
    bad = await gateway.chat(max_tokens=0)
    request_id = str(bad.headers["x-request-id"])
    page = await gateway.http.get(f"/v1/requests/{request_id}")
    assert page.status_code == 200
    told = page.json()
    assert told.pop("object") == "request.explanation"
    own = await explain(gateway, request_id, gateway.key.secret)
    assert ParseDict(told, Explanation()) == own
    assert bad.json()["error"]["message"] in told["sentences"][0]
    others = {"authorization": f"Bearer {gateway.other_key.secret}"}
    for unknown in (request_id, "req_" + "0" * 32):
        nothing = await gateway.http.get(f"/v1/requests/{unknown}", headers=others)
        assert nothing.status_code == 404
        assert nothing.json()["error"]["reason"] == "NOT_FOUND"
    unreadable = await gateway.http.get("/v1/requests/no%20id")
    assert unreadable.status_code == 400
    assert unreadable.json()["error"]["param"] == "request_id"


async def test_lists_hold_the_callers_own(gateway: Gateway) -> None:
    mine = str((await gateway.chat(max_tokens=2)).headers["x-request-id"])
    theirs = await gateway.http.post(
        "/v1/chat/completions",
        json={"model": "no-such", "messages": []},
        headers={"authorization": f"Bearer {gateway.other_key.secret}"},
    )
    other = str(theirs.headers["x-request-id"])
    all_ids = {one.request_id for one in (await listed(gateway)).requests}
    assert {mine, other} <= all_ids
    own = (await listed(gateway, gateway.key.secret)).requests
    assert {one.subject.tenant_id for one in own} == {"acme"}
    assert not (await listed(gateway, gateway.key.secret, tenant_id="globex")).requests
    only = (await listed(gateway, tenant_id="globex")).requests
    assert {one.request_id for one in only} >= {other}
    assert {one.subject.tenant_id for one in only} == {"globex"}


async def test_lists_are_filtered_and_come_in_pages(gateway: Gateway) -> None:
    for tokens in (2, 2, 0):
        await gateway.chat(max_tokens=tokens)
    refusals = (await listed(gateway, state=RequestState.REQUEST_STATE_REFUSED)).requests
    assert {one.state for one in refusals} == {RequestState.REQUEST_STATE_REFUSED}
    assert all(one.error_reason for one in refusals)
    answered = (await listed(gateway, outcome=Outcome.OUTCOME_OK, model="tiny")).requests
    assert {one.outcome for one in answered} == {Outcome.OUTCOME_OK}
    newest = answered[0]
    assert newest.completion_tokens == 2
    assert newest.prompt_tokens > 0
    assert newest.HasField("first_token_after")
    assert newest.HasField("queue_time")
    assert not (await listed(gateway, model="no-such")).requests
    whole = [one.request_id for one in (await listed(gateway)).requests]
    paged, token = [], ""
    while True:
        page = await listed(gateway, page_size=2, page_token=token)
        assert len(page.requests) <= 2
        paged += [one.request_id for one in page.requests]
        token = page.next_page_token
        if not token:
            break
    assert paged == whole
    arrivals = [one.arrive_time.ToMicroseconds() for one in (await listed(gateway)).requests]
    assert arrivals == sorted(arrivals, reverse=True)


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ({"page_size": 1_001}, "page_size is 1001; it must be from 1 to 1000"),
        ({"page_token": "x"}, "page_token"),
        ({"from_time": Timestamp(seconds=13_485_761_276_225)}, "from_time"),
        ({"from_time": Timestamp(nanos=-1)}, "from_time"),
        ({"page_token": "MQ=="}, "page_token"),
    ],
)
async def test_a_bad_query_names_field_and_bound(
    gateway: Gateway, query: dict[str, Any], told: str
) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await listed(gateway, **query)
    assert error.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert told in str(error.value.details())


async def test_a_tenant_sees_its_blocks_and_not_where_others_are(gateway: Gateway) -> None:
    request = GetKvMapRequest(worker_id="worker-0")
    whole = await stub(gateway).GetKvMap(request, metadata=bearer(ADMIN_SECRET), timeout=20)
    assert [*whole.map.tenants] == ["acme", "globex"]
    assert whole.map.total_blocks == 100
    own = await stub(gateway).GetKvMap(request, metadata=gateway.metadata, timeout=20)
    assert [*own.map.tenants] == ["acme"]
    assert [*own.map.lengths] == [15]
    assert [*own.map.states] == [KvBlockState.KV_BLOCK_STATE_HELD]
    assert own.map.total_blocks == 15
    assert own.map.next_block == 0, "how many runs others have is not told"
    assert "globex" not in str(own)
    missing = GetKvMapRequest(worker_id="worker-9")
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await stub(gateway).GetKvMap(missing, metadata=gateway.metadata, timeout=20)
    assert error.value.code() is grpc.StatusCode.NOT_FOUND


async def test_a_tenant_cannot_find_the_places_of_blocks_by_asking_for_parts(
    gateway: Gateway,
) -> None:
    request = GetKvMapRequest(worker_id="worker-0", first_block=30)
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await stub(gateway).GetKvMap(request, metadata=gateway.metadata, timeout=20)
    assert "first_block is 30; it must be 0" in str(error.value.details())
    whole = await stub(gateway).GetKvMap(request, metadata=bearer(ADMIN_SECRET), timeout=20)
    assert [*whole.map.lengths] == [5, 65]


async def test_a_worker_of_another_tenant_is_none_and_is_not_asked(gateway: Gateway) -> None:
    gateway.scheduler.dedicated = "globex"
    asked = gateway.worker.kv_asked
    told = set()
    for worker_id in ("worker-0", "worker-9"):
        request = GetKvMapRequest(worker_id=worker_id)
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await stub(gateway).GetKvMap(request, metadata=gateway.metadata, timeout=20)
        told.add((error.value.code(), str(error.value.details()).replace(worker_id, "ID")))
    assert len(told) == 1
    assert gateway.worker.kv_asked == asked


async def test_settings_are_told_with_their_source_and_without_secrets(gateway: Gateway) -> None:
    answer = await stub(gateway).GetConfiguration(
        GetConfigurationRequest(), metadata=bearer(ADMIN_SECRET), timeout=20
    )
    own = answer.services[0]
    assert own.service == "gateway"
    assert own.address == gateway.app.grpc_address
    settings = {setting.name: setting for setting in own.settings.settings}
    assert settings["scheduler_wait_s"].value_json == "5.0"
    assert settings["scheduler_wait_s"].source == SettingSource.SETTING_SOURCE_ARGUMENT
    assert settings["ping_s"].source == SettingSource.SETTING_SOURCE_DEFAULT
    assert settings["ping_s"].variable == "WEIR_GATEWAY__PING_S"
    assert settings["admin_secret"].masked
    for secret in (ADMIN_SECRET, "a-cluster-secret-of-at-least"):
        assert secret not in str(answer)
    others = {service.service: service.error for service in answer.services[1:]}
    assert others.keys() == {"ratelimiter", "scheduler", "worker"}
    assert all(others.values()), "the fakes tell no settings, and it is said"
