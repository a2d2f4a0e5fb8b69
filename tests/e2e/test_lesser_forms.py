"""Versions, requests that are changed and requests that are sent twice, with every real service."""

from typing import Any

import httpx2
import pytest

from tests.e2e.bill import bill
from tests.e2e.counted import books_closed
from tests.e2e.deployment import Deployment
from tests.e2e.lesser import BUCKET

pytestmark = [pytest.mark.timeout(180), pytest.mark.asyncio(loop_scope="session")]


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
    two_versions: Deployment,
) -> None:
    views = await two_versions.workers()
    assert sorted(view.registration.model_version for view in views) == ["1", "2"]
    drawn: dict[int, str] = {}
    for turn in range(2):
        for number in range(16):
            response = await asked(two_versions, "counted", conversation_id=f"talk-{number}")
            assert response.status_code == 200, response.text
            version = response.json()["system_fingerprint"]
            assert drawn.setdefault(number, version) == version, turn
    assert set(drawn.values()) == {"1", "2"}


async def test_a_replay_leaves_every_limit_where_it_is(two_versions: Deployment) -> None:
    before = len(await bill(two_versions))
    key = {"idempotency-key": "once"}
    first = await asked(two_versions, "counted", key)
    again = await asked(two_versions, "counted", key)
    assert (again.status_code, again.content) == (200, first.content)
    assert again.headers["idempotent-replayed"] == "true"
    rows = await books_closed(two_versions, ["counted"])
    mine = [row for row in rows if row.tenant == "counted"]
    assert len(mine) >= 1
    assert len(rows) == before + 1


async def test_an_answer_is_as_long_as_the_limit_has_left_and_that_is_charged(
    two_versions: Deployment,
) -> None:
    first = await asked(two_versions, "lesser", max_tokens=200)
    assert "x-weir-degraded" not in first.headers
    prompt = first.json()["usage"]["prompt_tokens"]
    left = BUCKET - first.json()["usage"]["total_tokens"] - prompt
    assert 4 <= left < 200
    second = await asked(two_versions, "lesser", max_tokens=200)
    assert second.headers["x-weir-degraded"] == f"lower_max_new_tokens={left}"
    assert second.json()["degradations"] == [f"lower_max_new_tokens={left}"]
    assert second.json()["usage"]["completion_tokens"] == left
    third = await asked(two_versions, "lesser", max_tokens=200)
    assert third.status_code == 429
