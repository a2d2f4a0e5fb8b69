"""The limits of a real ratelimiter behind a real Envoy, with the configuration that we ship."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.ratelimiter.account import directory, limit, tpm
from tests.ratelimiter.directory_server import directory_server
from tests.ratelimiter.envoy_proxy import Envoy, envoy
from tests.ratelimiter.process import LimiterProcess, limiter_process
from tests.ratelimiter.test_process import ready
from weir.directory.v1 import directory_pb2

pytestmark = pytest.mark.needs("envoy")

# As in deploy/envoy/envoy.yaml.
SECRET = "--envoy-secret=the-envoy-secret"
BUCKET, REQUESTS = directory_pb2.LIMIT_KIND_BUCKET, directory_pb2.LIMIT_RESOURCE_REQUESTS
SNAPSHOT = directory(tpm(100), limit("rate", BUCKET, REQUESTS, 3, refill=1, period_s=1))
ACME = {"tenant": "acme", "user": "bob", "model": "m"}


@asynccontextmanager
async def site(path: Path) -> AsyncIterator[tuple[Envoy, LimiterProcess, str]]:
    """An Envoy, the ratelimiter that it asks, and the directory's address."""
    more = ("--envoy-address=127.0.0.1:0", SECRET)
    async with directory_server() as (served, address):
        await served.publish(SNAPSHOT)
        async with limiter_process(path / "journal", address, *more) as process:
            await ready(process)
            async with envoy(path, process.ready["envoy"]) as proxy:
                yield proxy, process, address


async def test_envoy_lets_through_what_the_limits_allow(tmp_path: Path) -> None:
    async with site(tmp_path) as (proxy, _, _):
        answer = await proxy.get_until(200, **ACME)
        assert answer.headers["x-ratelimit-mode"] == "enforced"
        assert answer.headers["x-ratelimit-limit"] == "3"
        assert int(answer.headers["x-ratelimit-remaining"]) < 3
        passed = 1
        while (answer := await proxy.get(**ACME)).status_code == 200:
            passed += 1
        assert passed >= 3
        assert answer.status_code == 429
        # A second, and up to a tenth more for each caller to come back at another time.
        assert answer.headers["retry-after"] in ("1", "2")
        assert answer.headers["content-type"] == "application/json"
        assert answer.json()["error"]["code"] == "rate_limit_exceeded"
        # The bucket fills by one a second; a refusal costs nothing.
        await proxy.get_until(200, **ACME)


async def test_envoy_counts_tokens_and_stops_strangers(tmp_path: Path) -> None:
    async with site(tmp_path) as (proxy, _, _):
        answer = await proxy.get_until(200, **ACME, tokens="90")
        named = '100, 100;w=60;name="tenant:acme/tpm"'
        assert answer.headers["x-ratelimit-limit"] == named
        answer = await proxy.get(**ACME, tokens="90")
        assert answer.status_code == 429
        assert answer.json()["error"]["limit_type"] == "tpm"
        before = proxy.upstream.requests
        assert "nobody" in (await proxy.get(tenant="nobody")).json()["error"]["message"]
        assert (await proxy.get()).status_code == 429
        assert (await proxy.get(tenant="ac{me}")).status_code == 429
        assert proxy.upstream.requests == before


async def test_without_a_ratelimiter_nothing_passes_until_it_is_back(tmp_path: Path) -> None:
    async with site(tmp_path) as (proxy, process, directory_address):
        await proxy.get_until(200, **ACME)
        await process.kill()
        answer = await proxy.get_until(503, **ACME)
        before = proxy.upstream.requests
        assert (await proxy.get(**ACME)).status_code == 503
        assert proxy.upstream.requests == before
        more = (f"--envoy-address={process.ready['envoy']}", SECRET)
        async with limiter_process(tmp_path / "journal", directory_address, *more):
            answer = await proxy.get_until(200, **ACME)
            assert answer.headers["x-ratelimit-mode"] == "enforced"
