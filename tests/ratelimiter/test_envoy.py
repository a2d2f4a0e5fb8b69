"""Envoy's rate limit service over real gRPC: what an Envoy is told, and what is charged."""

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import orjson
import pytest
from prometheus_client import CollectorRegistry
from pydantic import SecretStr

from tests.ratelimiter.account import Account, context, directory, limit, parallel, rpm, tpm
from tests.ratelimiter.directory_server import directory_server
from tests.ratelimiter.process import limiter_process
from tests.ratelimiter.test_process import ready
from weir.directory.v1 import directory_pb2
from weir.envoy.v3.rate_limit_service_pb2 import RateLimitRequest, RateLimitResponse
from weir.envoy.v3.rate_limit_service_pb2_grpc import RateLimitServiceStub
from weir_core.rpc.channel import open_channel
from weir_core.rpc.interceptors import default_interceptors
from weir_core.telemetry.tracing import Tracing
from weir_ratelimiter.envoy.server import envoy_server
from weir_ratelimiter.settings import RateLimiterSettings
from weir_ratelimiter.store.memory_log import MemoryOptions

OK, OVER = RateLimitResponse.OK, RateLimitResponse.OVER_LIMIT
BOB = {"tenant": "acme", "user": "bob"}
SNAPSHOT = directory(tpm(100), rpm(5), parallel(1), context(10))
Facts = dict[str, str]


@dataclass
class Door:
    """A served account as an Envoy sees it."""

    account: Account
    stub: Any

    async def ask(self, *descriptors: Facts, hits: int = 0) -> RateLimitResponse:
        return await self.send(request(*descriptors or (BOB,), hits=hits))

    async def send(self, message: RateLimitRequest) -> RateLimitResponse:
        answer = await self.stub.ShouldRateLimit(message, timeout=5)
        assert isinstance(answer, RateLimitResponse)
        return answer

    async def left(self, limit_id: str) -> int:
        return await self.account.left(f"tenant:acme/{limit_id}")


def request(*descriptors: Facts, hits: int = 0) -> RateLimitRequest:
    message = RateLimitRequest(domain="site", hits_addend=hits)
    for facts in descriptors:
        descriptor = message.descriptors.add()
        for key, value in facts.items():
            descriptor.entries.add(key=key, value=value)
    return message


def headers(answer: RateLimitResponse) -> dict[str, str]:
    return {header.key: header.value for header in answer.response_headers_to_add}


def error(answer: RateLimitResponse) -> dict[str, Any]:
    assert answer.overall_code == OVER
    body = orjson.loads(answer.raw_body)["error"]
    assert isinstance(body, dict)
    return body


@asynccontextmanager
async def door(
    path: Path,
    snapshot: directory_pb2.Snapshot | None = SNAPSHOT,
    *,
    token: SecretStr | None = None,
    **settings: Any,
) -> AsyncIterator[Door]:
    acct = Account(path, MemoryOptions())
    if snapshot is not None:
        await acct.use(snapshot)
    chain = default_interceptors(tracing=Tracing("test"), registry=CollectorRegistry())
    server = envoy_server(RateLimiterSettings(**settings), acct.limiter, chain, acct.now_ms)
    address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    await server.start()
    try:
        async with open_channel(address, name="ratelimiter", token=token) as channel:
            yield Door(acct, RateLimitServiceStub(channel))
    finally:
        await server.stop(0)
        await acct.store.close()


async def test_a_request_is_charged_for_good_and_holds_nothing(tmp_path: Path) -> None:
    async with door(tmp_path) as served:
        for spent in (1, 2, 3):
            answer = await served.ask(BOB | {"tokens": "20"})
            assert answer.overall_code == OK
            assert (await served.left("rpm"), await served.left("tpm")) == (
                5 - spent,
                100 - 20 * spent,
            )
        # 60 tokens in all are over the context limit of 10, and three over one at a time.
        assert await served.left("parallel") == 1


async def test_the_tightest_limit_is_named_with_its_numbers(tmp_path: Path) -> None:
    async with door(tmp_path) as served:
        (status,) = (await served.ask(BOB | {"tokens": "10"})).statuses
        assert (status.code, status.limit_remaining) == (OK, 4)
        assert status.current_limit.name == "tenant:acme/rpm"
        assert status.current_limit.requests_per_unit == 5
        assert status.current_limit.unit == RateLimitResponse.RateLimit.MINUTE
        assert status.duration_until_reset.ToMilliseconds() == 12_000
        (status,) = (await served.ask(BOB | {"tokens": "70"})).statuses
        assert (status.current_limit.name, status.limit_remaining) == ("tenant:acme/tpm", 20)


async def test_a_refusal_says_what_and_when_and_takes_nothing(tmp_path: Path) -> None:
    async with door(tmp_path) as served:
        await served.ask(BOB | {"tokens": "90"})
        answer = await served.ask(BOB | {"tokens": "20"})
        assert error(answer)["code"] == "rate_limit_exceeded"
        assert error(answer)["limit_type"] == "tpm"
        told = headers(answer)
        # Each caller is told to wait up to a tenth longer.
        assert 6_000 <= int(told["retry-after-ms"]) <= 6_600
        assert told["retry-after"] in ("6", "7")
        assert (told["x-ratelimit-mode"], told["x-should-retry"]) == ("enforced", "true")
        (status,) = answer.statuses
        assert (status.code, status.limit_remaining) == (OVER, 10)
        assert status.current_limit.name == "tenant:acme/tpm"
        assert status.duration_until_reset.ToMilliseconds() == 6_000
        assert (await served.left("tpm"), await served.left("rpm")) == (10, 4)
        served.account.advance(6_000)
        assert (await served.ask(BOB | {"tokens": "20"})).overall_code == OK


async def test_what_never_fits_is_refused_without_a_time(tmp_path: Path) -> None:
    async with door(tmp_path) as served:
        answer = await served.ask(BOB | {"tokens": "101"})
        assert error(answer)["code"] == "request_too_large"
        assert "retry-after" not in headers(answer)
        assert await served.left("rpm") == 5


async def test_hits_are_requests(tmp_path: Path) -> None:
    async with door(tmp_path) as served:
        assert (await served.ask(hits=3)).overall_code == OK
        assert await served.left("rpm") == 2
        assert error(await served.ask(hits=3))["requested"] == 3
        message = request(BOB, hits=3)
        message.descriptors[0].hits_addend.value = 2
        assert (await served.send(message)).overall_code == OK
        assert await served.left("rpm") == 0


async def test_descriptors_together_are_one_request_all_or_nothing(tmp_path: Path) -> None:
    limits = directory(rpm(5), user=[rpm(1, "user_rpm")], key=[rpm(3, "key_rpm")])
    key = {"tenant": "acme", "api_key": "key1"}
    async with door(tmp_path, limits) as served:
        answer = await served.ask({"tenant": "acme"}, BOB, key)
        assert (answer.overall_code, len(answer.statuses)) == (OK, 3)
        answer = await served.ask({"tenant": "acme"}, BOB, key)
        assert [status.code for status in answer.statuses] == [OVER] * 3
        assert {status.current_limit.name for status in answer.statuses} == {
            "user:acme/bob/user_rpm"
        }
        assert await served.left("rpm") == 4
        assert await served.account.left("api_key:key1/key_rpm") == 2


async def test_numbers_of_shared_layers_stay_inside(tmp_path: Path) -> None:
    limits = directory(cluster=[rpm(1, "all_rpm")], model=[tpm(1_000, "model_tpm")])
    async with door(tmp_path, limits) as served:
        (status,) = (await served.ask(BOB | {"model": "m"})).statuses
        assert not status.HasField("current_limit")
        answer = await served.ask(BOB)
        (status,) = answer.statuses
        assert not status.HasField("current_limit")
        assert status.duration_until_reset.ToMilliseconds() == 60_000
        assert (error(answer)["limit"], error(answer)["used"]) == (None, None)


async def test_a_day_is_a_unit_and_a_burst_is_none(tmp_path: Path) -> None:
    kind, requests = directory_pb2.LIMIT_KIND_WINDOW, directory_pb2.LIMIT_RESOURCE_REQUESTS
    async with door(tmp_path, directory(limit("daily", kind, requests, 3, window="day"))) as served:
        (status,) = (await served.ask()).statuses
        assert status.current_limit.unit == RateLimitResponse.RateLimit.DAY
        assert status.limit_remaining == 2
    async with door(tmp_path / "burst", directory(rpm(10, refill=2))) as served:
        (status,) = (await served.ask()).statuses
        assert status.current_limit.unit == RateLimitResponse.RateLimit.UNKNOWN


@pytest.mark.parametrize(
    ("descriptors", "told"),
    [
        ([{"user": "bob"}], "no descriptor names a tenant"),
        ([{"tenant": "nobody"}], "tenant nobody is not in the directory"),
        ([BOB | {"model": "gpt"}], "model gpt is not in the directory"),
        ([BOB | {"remote_address": "10.0.0.1"}], "must be one of tenant, user"),
        ([BOB, {"tenant": "other"}], "one call is about one request"),
        ([{"tenant": "ac{me}"}], "descriptors.tenant is 'ac{me}'"),
        ([BOB | {"tokens": "-1"}], "descriptors.tokens is '-1'"),
        ([BOB | {"tokens": "1e3"}], "descriptors.tokens is '1e3'"),
        ([BOB | {"tokens": "9" * 16}], "descriptors.tokens is 9999999999999999"),
        ([BOB | {"api_key": "key2"}], "a key of tenant acme"),
    ],
)
async def test_a_bad_request_is_refused_with_the_reason_and_charged_to_nobody(
    descriptors: list[Facts], told: str, tmp_path: Path
) -> None:
    async with door(tmp_path) as served:
        answer = await served.ask(*descriptors)
        assert told in error(answer)["message"]
        assert headers(answer)["content-type"] == "application/json"
        assert await served.left("rpm") == 5


async def test_limits_and_hits_that_contradict_the_directory_are_refused(tmp_path: Path) -> None:
    async with door(tmp_path) as served:
        message = request(BOB)
        message.descriptors[0].limit.requests_per_unit = 10**6
        assert "remove `limit` from the action" in error(await served.send(message))["message"]
        message = request(BOB, BOB)
        message.descriptors[0].hits_addend.value = 2
        assert "descriptors.hits_addend" in error(await served.send(message))["message"]


async def test_a_suspended_tenant_is_refused(tmp_path: Path) -> None:
    async with door(tmp_path, directory(rpm(5), suspended=True)) as served:
        assert error(await served.ask())["code"] == "account_suspended"


async def test_unknown_tenants_pass_where_the_site_says_so(tmp_path: Path) -> None:
    async with door(tmp_path, envoy_unknown_tenant="pass") as served:
        for facts in ({"tenant": "nobody"}, {"user": "bob"}):
            assert (await served.ask(facts)).overall_code == OK
        assert error(await served.ask({"tenant": "ac{me}"}))
        assert error(await served.ask(BOB | {"model": "gpt"}))


async def test_what_is_wrong_with_us_is_an_error_for_the_sites_failure_mode(tmp_path: Path) -> None:
    async with door(tmp_path, None) as served:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await served.ask()
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


async def test_with_a_secret_only_those_who_send_it_are_answered(tmp_path: Path) -> None:
    secret = SecretStr("envoys-own")
    async with door(tmp_path / "a", envoy_secret="envoys-own", token=secret) as served:
        assert (await served.ask()).overall_code == OK
    for token in (None, SecretStr("another")):
        async with door(tmp_path / f"{token}", envoy_secret="envoys-own", token=token) as served:
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await served.ask()
            assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
            assert "`initial_metadata`" in (caught.value.details() or "")
            assert await served.left("rpm") == 5


async def test_each_admitted_request_is_one_row_and_rows_equal_the_account(tmp_path: Path) -> None:
    async with door(tmp_path) as served:
        for tokens in ("40", "", "50", "40"):
            await served.ask(BOB | {"tokens": tokens}, hits=1)
        await served.ask(hits=2)
        events = [entry.event for entry in await served.account.store.outbox(10)]
        assert [event.charged.prompt_tokens for event in events] == [40, 0, 50, 0]
        assert [event.requests for event in events] == [1, 1, 1, 2]
        assert await served.left("tpm") == 100 - 90
        assert await served.left("rpm") == 0
        assert {event.subject.user_id for event in events} == {"bob"}


async def test_without_the_shared_store_the_answer_says_degraded(tmp_path: Path) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        store = f"--store=redis://127.0.0.1:{closed.getsockname()[1]}"
        async with directory_server() as (served, address):
            await served.publish(directory(rpm(2)))
            more = (store, "--envoy-address=127.0.0.1:0")
            async with limiter_process(tmp_path, address, *more) as process:
                await ready(process)
                async with open_channel(process.ready["envoy"], name="ratelimiter") as channel:
                    stub = RateLimitServiceStub(channel)
                    seen = [await stub.ShouldRateLimit(request(BOB), timeout=5) for _ in range(3)]
    assert [answer.overall_code for answer in seen] == [OK, OK, OVER]
    assert {headers(answer)["x-ratelimit-mode"] for answer in seen} == {"degraded"}
