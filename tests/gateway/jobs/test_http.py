"""Jobs over HTTP: what callers see of them, and what becomes of them."""

import asyncio
import json
from typing import Any

import httpx2
import pytest

from tests.gateway.fake_worker import Script
from tests.gateway.harness import Gateway, eventually
from tests.gateway.jobs.asking import CHAT, read, submit, until
from tests.gateway.jobs.receiver import receiving
from weir.common.v1.subject_pb2 import RequestClass
from weir.scheduler.v1 import scheduler_service_pb2 as sched
from weir_core.errors import Reason, WeirError
from weir_core.errors.exceptions import LimitExceeded
from weir_gateway.flow.wire_reason import to_wire

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_a_job_runs_offline_and_its_answer_is_that_of_its_endpoint(site: Gateway) -> None:
    job = await submit(site)
    assert job["status"] == "queued"
    assert job["error"] is None
    ended = await until(site, job["id"])
    assert ended["status"] == "succeeded"
    assert ended["response"]["object"] == "chat.completion"
    assert ended["response"]["choices"][0]["message"]["content"] == "t0 t1 t2 t3 "
    assert ended["usage"] == ended["response"]["usage"]
    assert ended["attempts"] == 1
    account = site.limiter.only()
    assert account.request.request_id == ended["request_id"]
    (settled,) = account.settles
    assert settled.usage.completion_tokens == 4
    (enqueued,) = site.scheduler.enqueued
    assert getattr(enqueued, "class") == RequestClass.REQUEST_CLASS_BATCH


async def test_progress_is_not_told_so_that_what_dies_is_given_back(site: Gateway) -> None:
    site.worker.script = Script(pause_after=2)
    job = await submit(site)
    await eventually(lambda: site.limiter.accounts)
    account = site.limiter.only()
    await eventually(lambda: account.extensions)
    site.worker.resume.set()
    await until(site, job["id"], "succeeded")
    for extension in account.extensions:
        assert not extension.dispatched
        assert (extension.output_tokens, extension.prompt_tokens) == (0, 0)


async def test_completions_run_too(site: Gateway) -> None:
    body = {"model": CHAT["model"], "prompt": "hi", "max_tokens": 2}
    job = await submit(site, endpoint="/v1/completions", body=body)
    ended = await until(site, job["id"], "succeeded")
    assert ended["response"]["choices"][0]["text"] == "t0 t1 "


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"body": CHAT | {"model": "no-such"}}, "model"),
        ({"body": CHAT | {"stream": True}}, "stream"),
        ({"body": CHAT | {"session_id": "ses_x"}}, "session_id"),
        ({"body": CHAT | {"max_tokens": -1}}, "max_tokens"),
        ({"body": CHAT | {"no_such_field": 1}}, "no_such_field"),
        ({"body": [1]}, "body"),
        ({"body": None}, "body"),
        ({"endpoint": "/v1/embeddings"}, "endpoint"),
        ({"webhook_url": "ftp://example.com"}, "webhook_url"),
        ({"no_such": 1}, "no_such"),
    ],
)
async def test_what_could_never_run_is_refused_at_once(
    site: Gateway, fields: dict[str, Any], field: str
) -> None:
    response = await site.http.post("/v1/jobs", json={"body": CHAT} | fields)
    assert 400 <= response.status_code < 500
    assert response.json()["error"]["param"] == field


async def test_the_same_key_gives_the_same_job(site: Gateway) -> None:
    first = await submit(site, key="k-1")
    again = await submit(site, key="k-1")
    assert again["id"] == first["id"]
    other = await site.http.post(
        "/v1/jobs", json={"body": CHAT | {"max_tokens": 5}}, headers={"idempotency-key": "k-1"}
    )
    assert other.status_code == 422
    assert other.json()["error"]["code"] == "idempotency_conflict"
    mine = await submit(site, key="k-1", secret=site.other_key.secret)
    assert mine["id"] != first["id"]
    await until(site, first["id"])


@pytest.mark.parametrize("token", ["%%%", "AA==", "/w==", "ä"])
async def test_a_token_of_nobody_is_refused(site: Gateway, token: str) -> None:
    answer = await site.http.get("/v1/jobs", params={"page_token": token})
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "page_token"


async def test_another_tenants_job_is_not_there(site: Gateway) -> None:
    site.scheduler.hold = True
    job = await submit(site)
    stranger = {"authorization": f"Bearer {site.other_key.secret}"}
    for method, path in (("GET", ""), ("POST", "/cancel"), ("GET", "/events")):
        url = f"/v1/jobs/{job['id']}{path}"
        answers = [
            await site.http.request(method, url, headers=stranger),
            await site.http.request(method, url.replace(job["id"], "job_none"), headers=stranger),
        ]
        assert [answer.status_code for answer in answers] == [404, 404]
        assert answers[0].json() == answers[1].json()
    listed = await site.http.get("/v1/jobs", headers=stranger)
    assert job["id"] not in {one["id"] for one in listed.json()["data"]}
    site.scheduler.release()
    await until(site, job["id"], "succeeded")


async def test_lists_go_from_new_to_old_a_page_at_a_time(site: Gateway) -> None:
    made = [(await submit(site))["id"] for _ in range(5)]
    for job_id in made:
        await until(site, job_id)
    seen: list[str] = []
    token = ""
    while True:
        page = (await site.http.get(f"/v1/jobs?page_size=2&page_token={token}")).json()
        seen += [job["id"] for job in page["data"]]
        token = page["next_page_token"]
        if not token:
            break
    assert seen[:5] == sorted(made, reverse=True)
    assert len(seen) == len(set(seen))
    failed = (await site.http.get("/v1/jobs?status=failed")).json()["data"]
    assert not set(made) & {job["id"] for job in failed}
    assert (await site.http.get("/v1/jobs?status=nonsense")).status_code == 400


async def test_a_queued_job_is_cancelled_at_once_and_a_running_one_soon(site: Gateway) -> None:
    site.worker.script = Script(pause_after=2)
    job = await submit(site)
    await eventually(lambda: site.worker.tokens == 2)
    await site.http.post(f"/v1/jobs/{job['id']}/cancel")
    ended = await until(site, job["id"])
    assert ended["status"] == "cancelled"
    assert ended["usage"]["completion_tokens"] == 2
    (settled,) = site.limiter.only().settles
    assert settled.usage.completion_tokens == 2
    again = (await site.http.post(f"/v1/jobs/{job['id']}/cancel")).json()
    assert again["status"] == "cancelled"


async def test_a_limit_puts_a_job_back_until_it_may_fit(site: Gateway) -> None:
    refused = []

    def refuse(request: Any) -> WeirError | None:
        refused.append(request.request_id)
        if len(refused) > 1:
            return None
        return LimitExceeded(Reason.TOKEN_LIMIT_EXCEEDED, "not now", [], retry_after_s=0.5)

    site.limiter.refuse = refuse
    job = await submit(site)
    waiting = await until(site, job["id"], "queued", "succeeded")
    ended = await until(site, job["id"], "succeeded")
    assert ended["attempts"] == 2
    assert len(set(refused)) == 2
    assert waiting["status"] in ("queued", "succeeded")


async def test_a_limit_that_it_can_never_meet_fails_it(site: Gateway) -> None:
    site.limiter.refuse = lambda _: LimitExceeded(
        Reason.REQUEST_TOO_LARGE, "never", [], retry_after_s=None
    )
    job = await submit(site)
    ended = await until(site, job["id"])
    assert ended["status"] == "failed"
    assert ended["error"]["code"] == "request_too_large"


async def test_a_queue_that_is_full_and_a_worker_that_dies_put_it_back(site: Gateway) -> None:
    rejections = []

    def reject(enqueue: sched.Enqueue) -> sched.Rejected | None:
        rejections.append(enqueue.request_id)
        if len(rejections) > 1:
            return None
        rejected = sched.Rejected(
            request_id=enqueue.request_id,
            error_reason=to_wire(Reason.QUEUE_FULL),
            message="full",
        )
        rejected.retry_after.FromMilliseconds(100)
        return rejected

    site.scheduler.reject = reject
    job = await submit(site)
    ended = await until(site, job["id"], "succeeded")
    assert ended["attempts"] == 2
    charged = [account for account in site.limiter.accounts.values() if account.settles]
    assert [account.request.request_id for account in charged] == [ended["request_id"]]


async def test_a_job_runs_under_the_standing_that_its_owner_has_then(site: Gateway) -> None:
    site.worker.script = Script(pause_after=1)
    running = await submit(site)
    await eventually(lambda: site.worker.tokens == 1)
    document = json.loads(json.dumps(site.document))
    document["tenants"][0]["suspended"] = True
    await site.reload(document)
    stranger = {"authorization": f"Bearer {site.other_key.secret}"}
    assert (await site.http.get("/v1/models", headers=stranger)).status_code == 200
    async with asyncio.timeout(20):
        while (await site.http.get("/v1/models")).status_code != 403:
            await asyncio.sleep(0.01)
    await site.reload(site.document)
    async with asyncio.timeout(20):
        while (await site.http.get("/v1/models")).status_code != 200:
            await asyncio.sleep(0.01)
    ended = await until(site, running["id"])
    assert ended["status"] == "failed"
    assert ended["error"]["code"] == "account_suspended"
    assert ended["usage"]["completion_tokens"] == 1


async def test_events_tell_each_change_and_end_with_the_job(site: Gateway) -> None:
    site.worker.script = Script(pause_after=1)
    job = await submit(site)
    states: list[str] = []
    async with site.http.stream("GET", f"/v1/jobs/{job['id']}/events") as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        async for line in stream.aiter_lines():
            if not line.startswith("data: "):
                continue
            if line == "data: [DONE]":
                break
            states.append(json.loads(line[6:])["status"])
            if states[-1] == "running":
                site.worker.resume.set()
    assert states[-1] == "succeeded"
    assert states[0] in ("queued", "running")
    assert len(states) == len(set(states))


async def test_a_webhook_tells_the_end_and_nothing_of_the_answer(site: Gateway) -> None:
    async with receiving() as receiver:
        job = await submit(site, webhook_url=receiver.url)
        await eventually(lambda: receiver.received)
    told = json.loads(receiver.received[0].body)
    assert told["type"] == "job.completed"
    assert told["data"]["id"] == job["id"]
    assert told["data"]["status"] == "succeeded"
    assert "t0" not in receiver.received[0].body.decode()
    assert "webhook-signature" in receiver.received[0].headers


async def test_without_a_key_nothing_is_told(site: Gateway) -> None:
    async with httpx2.AsyncClient(base_url=site.http.base_url) as nobody:
        for method, path in (
            ("POST", ""),
            ("GET", ""),
            ("GET", "/job_x"),
            ("GET", "/job_x/events"),
        ):
            answer = await nobody.request(method, f"/v1/jobs{path}")
            assert answer.status_code == 401
    with pytest.raises(AssertionError):
        await read(site, "job_x")
