"""Gateways and clients that go away in the middle of a request with a key."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.gateway.fake_scheduler import FakeScheduler
from tests.gateway.fake_server import TOKEN
from tests.gateway.fake_worker import Script
from tests.gateway.harness import Gateway, eventually, running_gateway
from tests.gateway.idempotency.pair import (
    CHAT,
    STREAM,
    WHOLE,
    answered,
    gateway_beside,
    post,
    reason_of,
)
from weir.common.v1.lifecycle_pb2 import Outcome


async def left(http: httpx2.AsyncClient, key: str, key_secret: str) -> None:
    """A stream whose client leaves after two tokens."""
    headers = {"idempotency-key": key, "authorization": f"Bearer {key_secret}"}
    async with http.stream("POST", CHAT, json=STREAM, headers=headers) as response:
        assert response.status_code == 200
        async for part in response.aiter_text():
            if "t1 " in part:
                return


async def test_a_gateway_that_is_killed_frees_its_keys_after_the_lease(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/state.sqlite"
    async with running_gateway(tmp_path, state_url=url, idempotency_lease_s=2.0) as gateway:
        gateway.worker.script = Script(pause_after=2)
        async with killed_gateway(gateway, url) as (process, http):
            await left(http, "killed", gateway.key.secret)
            process.kill()
            await process.wait()
        gateway.worker.script = Script()
        refused = await post(gateway, "killed", STREAM)
        assert reason_of(refused) == "IDEMPOTENCY_IN_PROGRESS"
        response = await answered(gateway, "killed", STREAM)
        assert response.status_code == 200
        assert "idempotent-replayed" not in response.headers
        again = await post(gateway, "killed", STREAM)
        assert again.content == response.content
        # The dead gateway's reservation is the sweep's, the retry's was settled.
        first, second = gateway.limiter.accounts.values()
        assert first.open
        assert len(second.settles) == 1


@asynccontextmanager
async def killed_gateway(
    beside: Gateway, url: str
) -> AsyncIterator[tuple[asyncio.subprocess.Process, httpx2.AsyncClient]]:
    """A gateway process with the same limiter, workers and state."""
    scheduler = FakeScheduler(beside.workers)
    await scheduler.server.start()
    options = {
        "http-address": "127.0.0.1:0",
        "grpc-address": "127.0.0.1:0",
        "ratelimiter-address": beside.limiter.server.address,
        "scheduler-address": scheduler.server.address,
        "directory-file": str(beside.directory),
        "state-url": url,
        "idempotency-lease-s": "2",
    }
    arguments = [part for name, value in options.items() for part in (f"--{name}", value)]
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "weir_gateway",
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        env=os.environ | {"WEIR_CLUSTER_TOKEN": TOKEN.get_secret_value()},
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(60):
            ready = httpx2.Response(200, content=await process.stdout.readline()).json()
        async with httpx2.AsyncClient(base_url=f"http://{ready['http']}", timeout=20) as http:
            async with asyncio.timeout(60):
                while (await http.get("/healthz/ready")).status_code != 200:
                    await asyncio.sleep(0.05)
            yield process, http
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        await scheduler.server.stop()


async def test_where_the_policy_is_to_stop_a_leaving_client_frees_its_key(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/state.sqlite"
    async with running_gateway(tmp_path, state_url=url, idempotency_on_leave="stop") as gateway:
        gateway.worker.script = Script(pause_after=2)
        await left(gateway.http, "stopped", gateway.key.secret)
        await eventually(lambda: gateway.limiter.accounts and not gateway.limiter.open_accounts)
        assert gateway.limiter.only().settles[0].outcome == Outcome.OUTCOME_CLIENT_GONE
        gateway.worker.script = Script()
        response = await answered(gateway, "stopped", STREAM)
        assert "idempotent-replayed" not in response.headers
        assert len(gateway.worker.specs) == 2


async def test_a_gateway_that_is_stopped_frees_what_it_gives_up(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/state.sqlite"
    async with running_gateway(tmp_path, state_url=url) as gateway:
        async with gateway_beside(gateway, state_url=url) as other:
            gateway.worker.script = Script(pause_after=2)
            call = asyncio.create_task(post(other, "stopping", WHOLE))
            await eventually(lambda: gateway.worker.specs)
            await other.app.stop()
            with suppress(httpx2.HTTPError):
                await call
        gateway.worker.script = Script()
        response = await post(gateway, "stopping", WHOLE)
        assert response.status_code == 200
        assert "idempotent-replayed" not in response.headers


async def test_a_database_that_is_away_refuses_keys_and_loses_no_answer(tmp_path: Path) -> None:
    file = tmp_path / "state.sqlite"
    async with running_gateway(tmp_path, state_url=f"sqlite:///{file}") as gateway:
        gateway.worker.script = Script(pause_after=2)
        call = asyncio.create_task(post(gateway, "away", WHOLE))
        await eventually(lambda: gateway.worker.specs)
        elsewhere = file.rename(tmp_path / "elsewhere.sqlite")
        refused = await post(gateway, "other", WHOLE)
        assert (refused.status_code, reason_of(refused)) == (503, "STATE_UNAVAILABLE")
        gateway.worker.resume.set()
        answer = await call
        assert answer.status_code == 200
        gateway.worker.script = Script()
        assert (await gateway.chat(max_tokens=2)).status_code == 200
        elsewhere.rename(file)
        again = await answered(gateway, "away", WHOLE)
        assert (again.headers["idempotent-replayed"], again.content) == ("true", answer.content)
        assert len(gateway.worker.specs) == 2


async def test_a_call_that_became_a_job_is_one_job(tmp_path: Path) -> None:
    def defers(document: dict[str, Any]) -> None:
        document["tenants"][0]["policy"]["batch"] = {"to_job_after_ms": 100}

    url = f"sqlite:///{tmp_path}/state.sqlite"
    async with running_gateway(tmp_path, state_url=url, change=defers) as gateway:
        gateway.scheduler.hold = True
        body = WHOLE | {"class": "batch"}
        first = await post(gateway, "deferred", body)
        assert first.status_code == 202
        gateway.scheduler.release()
        await eventually(lambda: gateway.worker.specs)
        again = await post(gateway, "deferred", body)
        assert (again.status_code, again.content) == (202, first.content)
        await gateway.at_rest()
        assert len(gateway.worker.specs) == 1


@pytest.mark.parametrize("path", [CHAT, "/v1/messages"])
async def test_without_a_state_database_a_key_is_refused(tmp_path: Path, path: str) -> None:
    async with running_gateway(tmp_path) as gateway:
        body = {k: v for k, v in WHOLE.items() if k != "stream"}
        response = await post(gateway, "k", body, path)
        assert response.status_code == 501
        assert "STATE_URL" in response.text
        assert not gateway.limiter.accounts
