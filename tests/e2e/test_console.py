"""The console's JSON against a real stack: numbers are the ledger's, and a tenant sees its own."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import httpx2
import pytest
import pytest_asyncio

from tests.e2e.bill import bill
from tests.e2e.console import Browser, admin_secret, door, signed_in
from tests.e2e.deployment import Deployment
from tests.e2e.wait import until

pytestmark = pytest.mark.asyncio(loop_scope="session")

_REQUESTS = 4


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def admin(counting: Deployment) -> AsyncIterator[Browser]:
    async with signed_in(door(counting), admin_secret(counting)) as browser:
        yield browser


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def tenant(counting: Deployment) -> AsyncIterator[Browser]:
    async with signed_in(door(counting), counting.secret("seen")) as browser:
        yield browser


async def ask(stack: Deployment, tenant_id: str, tokens: int) -> httpx2.Response:
    body = {"model": stack.model, "prompt": "to be counted", "max_tokens": tokens}
    headers = {"authorization": f"Bearer {stack.secret(tenant_id)}"}
    async with httpx2.AsyncClient(timeout=60) as http:
        return await http.post(f"{stack.base_url}/completions", json=body, headers=headers)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def answered(counting: Deployment) -> list[str]:
    """Ids of requests of `seen`; one of `unseen` is last."""
    answers = [await ask(counting, "seen", 3 + number) for number in range(_REQUESTS)]
    answers.append(await ask(counting, "unseen", 3))
    assert {answer.status_code for answer in answers} == {200}
    return [str(answer.headers["x-request-id"]) for answer in answers]


async def test_totals_are_the_ledgers_to_the_token(
    counting: Deployment, admin: Browser, tenant: Browser, answered: list[str]
) -> None:
    rows = [row for row in await bill(counting) if row.tenant == "seen"]
    tokens, nanos = sum(row.tokens for row in rows), sum(row.nanos for row in rows)
    assert tokens
    for browser in (admin, tenant):
        told = await browser.get("tenants/seen")
        assert told["today"]["data"]["total_tokens"] == tokens
        assert told["month"]["data"]["total_tokens"] == tokens
        assert told["today"]["data"]["amount"] == f"{nanos // 10**9}.{nanos % 10**9:09d}"
        usage = await browser.get("tenants/seen/usage", by="model,key")
        assert usage["total"]["total_tokens"] == tokens
        assert sum(row["total_tokens"] for row in usage["rows"]) == tokens
        for part in ("keys", "users"):
            listed = await browser.get(f"tenants/seen/{part}")
            assert sum(one["today"]["total_tokens"] for one in listed[part]) == tokens
    listed = {one["id"]: one["today"] for one in (await admin.get("tenants"))["tenants"]}
    assert listed["seen"]["total_tokens"] == tokens


async def test_account_and_ledger_agree_and_the_page_says_so(
    admin: Browser, answered: list[str]
) -> None:
    async def reconciled() -> dict[str, Any]:
        card = (await admin.get("tenants/unseen"))["reconciliation"]
        assert card["error"] is None, card
        told: dict[str, Any] = card["data"]
        return told

    told = await until(reconciled, lambda one: one["state"] == "agree", "agreement", 20)
    checks = {check["what"]: check for check in told["checks"]}
    for limit in ("tenant:unseen/month", "tenant:unseen/budget"):
        assert checks[limit]["difference"] == 0
        assert checks[limit]["account"] == checks[limit]["ledger"] > 0
    assert "2 calendar budgets compared" in told["text"]
    assert told["lag_s"] == 0


async def test_the_binding_limit_is_the_one_that_is_used_most(
    counting: Deployment, admin: Browser
) -> None:
    running = asyncio.create_task(ask(counting, "seen", 400))
    await until(
        lambda: admin.get("tenants/seen/limits", key=counting.keys["seen"].id),
        lambda told: told["binding"] == "tenant:seen/slots",
        "a held slot",
        20,
    )
    told = await admin.get("tenants/seen/limits", model=counting.model)
    first = told["limits"][0]
    assert (first["id"], first["binding"], first["held"]) == ("tenant:seen/slots", True, 1)
    assert first["used_share"] == 1 / first["limit"]
    assert (await admin.get("tenants/seen"))["in_flight"] == 1
    await running


async def test_what_waits_is_listed_with_its_reason_and_explained(
    counting: Deployment, admin: Browser, tenant: Browser
) -> None:
    running = [asyncio.create_task(ask(counting, "seen", 250)) for _ in range(3)]

    async def queue() -> dict[str, Any]:
        told: dict[str, Any] = (await admin.get("queue", tenant="seen"))["queue"]["data"]
        return told

    await until(queue, lambda one: one["total"] == 2, "two that wait", 20)
    told = (await tenant.get("queue"))["queue"]["data"]
    assert told["total"] == 2
    assert {one["reason"] for one in told["requests"]} == {"TENANT_CAP"}
    assert "max_running_requests" in told["requests"][0]["text"]
    page = (await admin.get("queue", tenant="seen", page_size=1))["queue"]["data"]
    assert len(page["requests"]) == 1
    assert page["next_page_token"]
    waiting = told["requests"][0]["request_id"]
    one = await tenant.get(f"requests/{waiting}")
    assert one["summary"]["state"] == "queued"
    assert one["phases"][-1]["name"] == "queue"
    assert one["phases"][-1]["end_time"] is None
    live = await tenant.get("requests", state="live", page_size=2)
    assert len(live["requests"]) == 2
    rest = await tenant.get("requests", state="live", page_token=live["next_page_token"])
    ids = {one["request_id"] for one in (*live["requests"], *rest["requests"])}
    assert waiting in ids
    assert len(ids) == 3
    await asyncio.gather(*running)


async def test_a_request_has_its_waterfall_and_its_charge(
    tenant: Browser, answered: list[str]
) -> None:
    told = await tenant.get(f"requests/{answered[0]}")
    names = [phase["name"] for phase in told["phases"]]
    order = ["intake", "reserve", "queue", "dispatch", "prefill", "decode", "settle"]
    assert names == [name for name in order if name in names]
    assert {"reserve", "prefill", "settle"} <= set(names)
    assert all(phase["duration_s"] >= 0 for phase in told["phases"])
    assert told["summary"]["output_tokens"] == 3
    charge = told["charge"]
    assert charge["total_tokens"] == charge["prompt_tokens"] + 3
    assert told["explanation"]


async def test_a_tenant_reaches_nothing_of_another_by_any_url(
    counting: Deployment, tenant: Browser, answered: list[str]
) -> None:
    theirs, key = answered[-1], counting.keys["unseen"].id
    worker = counting.stack.worker_id("worker-1")
    paths = [
        "tenants/unseen",
        "tenants/unseen/limits",
        "tenants/unseen/usage",
        "tenants/unseen/keys",
        "tenants/unseen/users",
        f"requests/{theirs}",
        "queue?tenant=unseen",
        "requests?tenant=unseen",
        "slo?tenant=unseen",
        f"tenants/seen/limits?key={key}",
    ]
    for path in paths:
        told = await tenant.http.get(f"/console/api/{path}")
        nobodys = path.replace("unseen", "nobody").replace(theirs, "req_0").replace(key, "0" * 12)
        same = await tenant.http.get(f"/console/api/{nobodys}")
        assert told.status_code == 404, (path, told.text)
        assert told.json() == same.json(), path
    for path in (
        "workers",
        f"workers/{worker}/kv",
        "fairness",
        "directory",
        "configuration",
        "audit",
    ):
        told = await tenant.http.get(f"/console/api/{path}")
        assert told.status_code == 403, (path, told.text)
    assert (await tenant.post(f"workers/{worker}/drain")).status_code == 403
    for path in ("overview", "tenants", "queue", "requests", "slo", "history", "session"):
        told = await tenant.http.get(f"/console/api/{path}")
        assert told.status_code == 200, path
        for word in ("unseen", "reconciled", theirs, key):
            assert f'"{word}"' not in told.text, (path, word)


async def test_no_secret_is_in_any_answer(
    counting: Deployment, admin: Browser, tenant: Browser, answered: list[str]
) -> None:
    secrets = [
        admin_secret(counting),
        (counting.state / "cluster_secret").read_text().strip(),
        *(key.secret for key in counting.keys.values()),
        *(key.hash.hex() for key in counting.keys.values()),
        "to be counted",
    ]
    worker = counting.stack.worker_id("worker-1")
    for browser, paths in (
        (
            admin,
            "session overview history tenants tenants/seen tenants/seen/keys queue workers "
            f"fairness slo directory configuration audit requests requests/{answered[0]} "
            f"playground/models workers/{worker}/kv",
        ),
        (tenant, "session overview tenants tenants/seen/keys requests playground/models"),
    ):
        for path in paths.split():
            answer = await browser.http.get(f"/console/api/{path}")
            assert answer.status_code == 200, (path, answer.text)
            for secret in secrets:
                assert secret not in answer.text, path


async def test_configuration_tells_every_service_and_masks_secrets(admin: Browser) -> None:
    services = {one["service"]: one for one in await admin.data("configuration")}
    assert services.keys() >= {"gateway", "ratelimiter", "scheduler", "worker"}
    settings = {one["name"]: one for one in services["gateway"]["settings"]}
    assert settings["admin_secret"]["secret"]
    assert settings["admin_secret"]["source"] == "environment"
    assert settings["http_address"]["source"] == "file"


async def test_kv_blocks_are_of_who_has_them(counting: Deployment, admin: Browser) -> None:
    worker = counting.stack.worker_id("worker-1")
    running = asyncio.create_task(ask(counting, "seen", 400))

    async def owners() -> dict[str, Any]:
        told = await admin.get(f"workers/{worker}/kv")
        data = told["data"] or {"owners": []}
        return {**data, "by": {one["tenant"]: one for one in data["owners"]}}

    told = await until(
        owners, lambda one: one["by"].get("seen", {}).get("held", 0) > 0, "held blocks", 20
    )
    assert sum(told["states"].values()) == told["total_blocks"] == 40
    assert told["states"]["stranded"] == 0
    assert sum(run["blocks"] for run in told["runs"]) == told["total_blocks"]
    held = sum(
        run["blocks"] for run in told["runs"] if (run["state"], run["tenant"]) == ("held", "seen")
    )
    assert held == told["by"]["seen"]["held"]
    await running


async def test_a_worker_is_drained_and_taken_back(counting: Deployment, admin: Browser) -> None:
    worker = counting.stack.worker_id("worker-1")
    # One that has nothing to do leaves at once.
    running = asyncio.create_task(ask(counting, "unseen", 400))
    await until(
        lambda: admin.data("workers"), lambda told: told[0]["running"] == 1, "work of the worker"
    )
    missing = await admin.http.post(f"/console/api/workers/{worker}/drain")
    assert missing.status_code == 403
    drained = await admin.post(f"workers/{worker}/drain")
    assert drained.json()["state"] == "draining"
    assert drained.json()["drain_time"]
    back = await admin.post(f"workers/{worker}/undrain")
    assert (back.status_code, back.json()["state"]) == (200, "ready")
    assert (await admin.post("workers/nobody/drain")).status_code == 404
    assert (await running).status_code == 200


def fleet_of(browser: Browser) -> Callable[[], Awaitable[dict[str, Any]]]:
    async def fleet() -> dict[str, Any]:
        card = (await browser.get("overview"))["workers"]
        return card["data"] or {"ready": 0}

    return fleet


async def test_the_overview_counts_what_happened(
    counting: Deployment, admin: Browser, tenant: Browser
) -> None:
    assert (await ask(counting, "seen", 5)).status_code == 200

    def has(browser: Browser) -> Callable[[], Awaitable[dict[str, Any]]]:
        async def traffic() -> dict[str, Any]:
            card = (await browser.get("overview"))["traffic"]
            told: dict[str, Any] = card["data"]
            return told

        return traffic

    for browser in (admin, tenant):
        told = await until(
            has(browser),
            lambda one: any(t["tenant"] == "seen" and t["ttft"]["count"] for t in one["tenants"]),
            "traffic of the tenant",
            30,
        )
        assert told["output_tokens_per_s"] > 0
    assert (await tenant.get("overview"))["workers"] is None
    # What the keeper has seen is up to 5 s old.
    fleet = await until(
        fleet_of(admin), lambda one: one["ready"] == 1, "the worker in the overview", 20
    )
    assert (fleet["ready"], fleet["total"], fleet["kv_blocks"]) == (1, 1, 40)


async def test_a_tenant_plays_as_its_own_key(counting: Deployment, tenant: Browser) -> None:
    served = await tenant.get("playground/models")
    assert served["generate"] == "session"
    assert counting.grpc_address.endswith(f":{served['grpc_port']}")
    before = (await tenant.get("tenants/seen"))["today"]["data"]["requests"]
    body = {
        "model": counting.model,
        "messages": [{"role": "user", "content": "hi"}],
        "max_tokens": 4,
    }
    answer = await tenant.post("playground/chat", json=body)
    assert answer.status_code == 200, answer.text
    assert answer.json()["usage"]["completion_tokens"] == 4
    after = (await tenant.get("tenants/seen"))["today"]["data"]["requests"]
    assert after == before + 1
    without = await tenant.http.post("/console/api/playground/chat", json=body)
    assert without.status_code == 403
    assert "x-weir-csrf" in without.json()["error"]["message"]


async def test_an_administrator_has_no_key_to_play_with(admin: Browser) -> None:
    assert (await admin.get("playground/models"))["generate"] == "key"
    answer = await admin.post("playground/chat", json={})
    assert answer.status_code == 403
