"""Calls that become jobs: by the client's wish, or by the tenant's policy."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
import pytest_asyncio

from tests.gateway.harness import Gateway, eventually, running_gateway
from tests.gateway.jobs.asking import CHAT, until

pytestmark = pytest.mark.asyncio(loop_scope="module")


def _defers(document: dict[str, Any]) -> None:
    document["tenants"][0]["policy"]["batch"] = {"to_job_after_ms": 150}
    document["tenants"][1]["limits"] = [{"resource": "requests", "rate": "3/min"}]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Gateway]:
    folder = tmp_path_factory.mktemp("deferral")
    url = f"sqlite:///{folder}/state.sqlite"
    async with running_gateway(folder, state_url=url, change=_defers) as gateway:
        yield gateway


async def test_a_client_that_prefers_it_is_answered_later(site: Gateway) -> None:
    response = await site.http.post(
        "/v1/chat/completions", json=CHAT, headers={"prefer": "wait=5, respond-async"}
    )
    assert response.status_code == 202
    assert response.headers["preference-applied"] == "respond-async"
    job_id = response.json()["job_id"]
    assert response.headers["location"] == f"/v1/jobs/{job_id}"
    ended = await until(site, job_id, "succeeded")
    assert ended["response"]["choices"][0]["message"]["content"] == "t0 t1 t2 t3 "


async def test_the_same_key_is_the_same_job(site: Gateway) -> None:
    headers = {"prefer": "respond-async", "idempotency-key": "once"}
    told = [
        (await site.http.post("/v1/chat/completions", json=CHAT, headers=headers)).json()
        for _ in range(2)
    ]
    assert told[0]["job_id"] == told[1]["job_id"]
    await until(site, told[0]["job_id"], "succeeded")


async def test_what_is_preferred_later_is_counted_as_other_calls_are(site: Gateway) -> None:
    headers = {"prefer": "respond-async", "authorization": f"Bearer {site.other_key.secret}"}
    answers = [
        await site.http.post("/v1/chat/completions", json=CHAT, headers=headers) for _ in range(5)
    ]
    assert [answer.status_code for answer in answers] == [202, 202, 202, 429, 429]
    assert answers[-1].json()["error"]["resource"] == "requests_per_minute"


async def test_an_offline_call_that_waits_too_long_becomes_a_job(site: Gateway) -> None:
    site.scheduler.hold = True
    response = await site.chat(**CHAT, **{"class": "batch"})
    assert response.status_code == 202
    (call,) = [account for account in site.limiter.accounts.values() if account.refunds]
    assert not call.settles
    site.scheduler.release()
    ended = await until(site, response.json()["job_id"], "succeeded")
    mine = [
        account
        for account in site.limiter.accounts.values()
        if account.request.subject == call.request.subject
    ]
    charged = [account for account in mine if account.settles]
    assert [account.request.request_id for account in charged] == [ended["request_id"]]


async def test_an_offline_call_that_runs_in_time_is_answered(site: Gateway) -> None:
    response = await site.chat(**CHAT, **{"class": "batch"})
    assert response.status_code == 200
    assert response.json()["choices"][0]["message"]["content"] == "t0 t1 t2 t3 "


@pytest.mark.parametrize("fields", [{}, {"class": "batch", "stream": True}])
async def test_interactive_and_streamed_calls_wait(site: Gateway, fields: dict[str, Any]) -> None:
    site.scheduler.hold = True
    asking = asyncio.ensure_future(site.chat(**CHAT, **fields))
    await eventually(lambda: site.scheduler.enqueued)
    done, _ = await asyncio.wait({asking}, timeout=0.4)
    assert not done
    site.scheduler.release()
    assert (await asking).status_code == 200


async def test_the_call_of_a_client_that_leaves_meanwhile_becomes_no_job(site: Gateway) -> None:
    site.scheduler.hold = True
    before = (await site.http.get("/v1/jobs")).json()["data"]
    with pytest.raises(httpx2.TimeoutException):
        await site.http.post("/v1/chat/completions", json=CHAT | {"class": "batch"}, timeout=0.05)
    await eventually(lambda: not site.limiter.open_accounts)
    assert (await site.http.get("/v1/jobs")).json()["data"] == before
