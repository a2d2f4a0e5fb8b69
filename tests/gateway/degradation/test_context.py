"""Requests that are too long for their model."""

from typing import Any

import pytest

from tests.gateway.degradation.site import SMALLEST, set_policy
from tests.gateway.harness import MAX_CONTEXT, MODEL, Gateway

pytestmark = pytest.mark.asyncio(loop_scope="module")


def turn(role: str, content: str) -> dict[str, Any]:
    return {"role": role, "content": content}


LONG = [
    turn("system", "be brief"),
    *(turn(role, f"{n}" + "x" * 30) for n in range(4) for role in ("user", "assistant")),
    turn("user", "last"),
]


async def test_a_model_of_longer_context_takes_it(gateway: Gateway) -> None:
    response = await gateway.chat(messages=LONG, max_tokens=4)
    assert response.json()["model"] == SMALLEST
    assert response.headers["x-weir-degraded"] == f"smaller_model={SMALLEST}"
    assert len(gateway.worker.specs[0].prompt_token_ids) > MAX_CONTEXT


async def test_the_answer_is_bounded_by_what_the_context_has_left(gateway: Gateway) -> None:
    await set_policy(gateway, degradations=["lower_max_new_tokens"])
    messages = [turn("user", "x" * 120)]
    response = await gateway.chat(messages=messages, max_tokens=190)
    prompt = response.json()["usage"]["prompt_tokens"]
    left = MAX_CONTEXT - prompt
    assert response.headers["x-weir-degraded"] == f"lower_max_new_tokens={left}"
    assert response.json()["usage"]["completion_tokens"] == left


async def test_as_few_of_the_oldest_turns_are_left_out_as_need_be(gateway: Gateway) -> None:
    await set_policy(gateway, degradation={"truncate": "head"})
    response = await gateway.chat(messages=LONG, max_tokens=4)
    assert response.status_code == 200
    told = response.headers["x-weir-degraded"]
    dropped = int(told.removeprefix("truncate=head:"))
    assert 0 < dropped < len(LONG) - 2
    assert dropped % 2 == 0
    # One turn more would not have fitted.
    longer = [LONG[0], *LONG[1 + dropped - 2 :]]
    await set_policy(gateway)
    assert (await gateway.chat(messages=longer, max_tokens=4)).status_code == 400
    kept = [LONG[0], *LONG[1 + dropped :]]
    same = await gateway.chat(messages=kept, max_tokens=4)
    first, second = (list(spec.prompt_token_ids) for spec in gateway.worker.specs)
    assert first == second
    assert same.json()["usage"] == response.json()["usage"]


async def test_a_last_turn_that_is_too_long_is_refused_as_before(gateway: Gateway) -> None:
    await set_policy(gateway, degradation={"truncate": "head"})
    messages = [turn("user", "old"), turn("assistant", "old"), turn("user", "x" * MAX_CONTEXT)]
    response = await gateway.chat(messages=messages, max_tokens=4)
    assert (response.status_code, response.json()["error"]["code"]) == (
        400,
        "context_length_exceeded",
    )
    assert MODEL in response.text
    assert not gateway.limiter.accounts
