"""Who sees which metrics."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from prometheus_client.parser import text_string_to_metric_families

from tests.gateway.fake_server import TOKEN
from tests.gateway.harness import MODEL, Gateway, eventually, running_gateway

pytestmark = pytest.mark.asyncio(loop_scope="module")

ADMIN_SECRET = "an-admin-secret-of-more-than-32-characters"
Series = dict[str, list[dict[str, str]]]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def watched(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Gateway]:
    """acme has a store of its own, globex has none; each has had one request."""
    folder = tmp_path_factory.mktemp("watched")
    stores = {"acme": {"log_file": str(folder / "acme.jsonl")}}
    async with running_gateway(folder, tenant_stores=stores, admin_secret=ADMIN_SECRET) as gateway:
        await gateway.chat(max_tokens=3)
        body = {"model": MODEL, "prompt": "hello", "max_tokens": 2}
        for sent in (body, body | {"max_tokens": -1}):
            await gateway.http.post("/v1/completions", json=sent, headers=key_of(gateway, 1))
        await eventually(lambda: not gateway.limiter.open_accounts)
        yield gateway


def key_of(gateway: Gateway, number: int) -> dict[str, str]:
    return bearer((gateway.key, gateway.other_key)[number].secret)


def bearer(secret: str) -> dict[str, str]:
    return {"authorization": f"Bearer {secret}"}


async def seen(gateway: Gateway, headers: dict[str, str], tenant: str = "") -> Series:
    query = {"tenant": tenant} if tenant else {}
    answer = await gateway.http.get("/metrics", params=query, headers=headers)
    assert answer.status_code == 200, answer.text
    return {
        family.name: [sample.labels for sample in family.samples]
        for family in text_string_to_metric_families(answer.text)
    }


def tenants(series: Series) -> set[str]:
    return {
        labels["tenant"] for samples in series.values() for labels in samples if "tenant" in labels
    }


async def test_operators_see_all_and_each_tenant(watched: Gateway) -> None:
    for secret in (ADMIN_SECRET, TOKEN.get_secret_value()):
        everything = await seen(watched, bearer(secret))
        assert tenants(everything) == {"acme", "globex"}
        assert "process_cpu_seconds" in everything
        assert tenants(await seen(watched, bearer(secret), "globex")) == {"globex"}


async def test_a_key_sees_what_is_its_tenants(watched: Gateway) -> None:
    for asked in ("", "globex"):
        own = await seen(watched, key_of(watched, 1), asked)
        assert tenants(own) == {"globex"}
        assert all("tenant" in labels for samples in own.values() for labels in samples)


async def test_a_tenant_with_a_store_sees_its_times_too(watched: Gateway) -> None:
    own = await seen(watched, key_of(watched, 0))
    assert tenants(own) == {"acme"}
    assert "process_cpu_seconds" not in own
    assert "time_to_first_token" in own
    operator = bearer(ADMIN_SECRET)
    answer = await watched.http.get("/metrics", params={"tenant": "acme"}, headers=operator)
    # globex' request is in neither.
    assert f'end_to_end_latency_count{{model="{MODEL}"}} 1.0' in answer.text


@pytest.mark.parametrize(("tenant", "status"), [("globex", 404), ("nobody", 404), ("acme", 200)])
async def test_no_key_sees_another_tenant(watched: Gateway, tenant: str, status: int) -> None:
    answer = await watched.http.get("/metrics", params={"tenant": tenant})
    assert answer.status_code == status
    if status == 404:
        assert answer.json()["error"]["param"] == "tenant"
        assert "globex" not in answer.text.replace(tenant, "")


async def test_nobody_sees_nothing(watched: Gateway) -> None:
    for headers in ({"authorization": ""}, bearer(ADMIN_SECRET[:-1]), {"authorization": "Basic x"}):
        answer = await watched.http.get("/metrics", headers=headers)
        assert answer.status_code == 401
        assert "tenant=" not in answer.text


async def test_they_can_be_opened(tmp_path: Path) -> None:
    async with running_gateway(tmp_path, open_metrics=True) as gateway:
        await gateway.chat(max_tokens=1)
        await eventually(lambda: not gateway.limiter.open_accounts)
        assert tenants(await seen(gateway, {"authorization": ""})) == {"acme"}
        answer = await gateway.http.get("/metrics?tenant=acme", headers={"authorization": ""})
        assert answer.status_code == 401
