"""Versions, requests that are changed and requests that are sent twice, with every real service."""

from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest
import pytest_asyncio

from tests.e2e.bill import bill
from tests.e2e.counted import COUNTED, books_closed
from tests.e2e.deployment import Deployment, deployed
from weir_core.model_folder import models_home
from weir_worker.engine.config import NULL_MODEL
from weir_worker.engine.null_folder import ensure_null_model

pytestmark = [pytest.mark.timeout(180), pytest.mark.asyncio(loop_scope="module")]

BUCKET = 300
LESSER = {
    "id": "lesser",
    "limits": [{"id": "tokens", "resource": "tokens", "rate": "1/day", "burst": BUCKET}],
    "policy": {
        "degradations": ["lower_max_new_tokens", "cheaper_sampling"],
        "degradation": {"min_new_tokens": 4},
    },
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stack(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Deployment]:
    """Two versions of one model, by equal weights and sticky by session."""
    folder = str(ensure_null_model(models_home() / NULL_MODEL))
    versions = [{"version": name, "folder": folder, "weight": 1} for name in ("1", "2")]
    async with deployed(
        tmp_path_factory.mktemp("lesser") / "state",
        None,
        tenants={"counted": {"plan": "counted"}, "lesser": {"plan": "lesser"}},
        plans=[*COUNTED, LESSER],
        model={"versions": versions, "sticky": "session"},
    ) as deployment:
        yield deployment


async def asked(
    stack: Deployment, tenant: str, headers: dict[str, str] | None = None, **fields: Any
) -> httpx2.Response:
    body = {"model": stack.model, "prompt": "hello", "max_tokens": 4} | fields
    authorization = {"authorization": f"Bearer {stack.secret(tenant)}"}
    async with httpx2.AsyncClient(timeout=60) as http:
        return await http.post(
            f"{stack.base_url}/completions", json=body, headers=authorization | (headers or {})
        )


async def test_every_version_with_a_weight_is_up_and_a_conversation_keeps_its_own(
    stack: Deployment,
) -> None:
    views = await stack.workers()
    assert sorted(view.registration.model_version for view in views) == ["1", "2"]
    drawn: dict[int, str] = {}
    for turn in range(2):
        for number in range(16):
            response = await asked(stack, "counted", conversation_id=f"talk-{number}")
            assert response.status_code == 200, response.text
            version = response.json()["system_fingerprint"]
            assert drawn.setdefault(number, version) == version, turn
    assert set(drawn.values()) == {"1", "2"}


async def test_a_replay_leaves_every_limit_where_it_is(stack: Deployment) -> None:
    before = len(await bill(stack))
    key = {"idempotency-key": "once"}
    first = await asked(stack, "counted", key)
    again = await asked(stack, "counted", key)
    assert (again.status_code, again.content) == (200, first.content)
    assert again.headers["idempotent-replayed"] == "true"
    rows = await books_closed(stack, ["counted"])
    mine = [row for row in rows if row.tenant == "counted"]
    assert len(mine) >= 1
    assert len(rows) == before + 1


async def test_an_answer_is_as_long_as_the_limit_has_left_and_that_is_charged(
    stack: Deployment,
) -> None:
    first = await asked(stack, "lesser", max_tokens=200)
    assert "x-weir-degraded" not in first.headers
    prompt = first.json()["usage"]["prompt_tokens"]
    left = BUCKET - first.json()["usage"]["total_tokens"] - prompt
    assert 4 <= left < 200
    second = await asked(stack, "lesser", max_tokens=200)
    assert second.headers["x-weir-degraded"] == f"lower_max_new_tokens={left}"
    assert second.json()["degradations"] == [f"lower_max_new_tokens={left}"]
    assert second.json()["usage"]["completion_tokens"] == left
    third = await asked(stack, "lesser", max_tokens=200)
    assert third.status_code == 429
