"""Faults that users of other gateways reported, tried here; `test_case_list.py` has all of them."""

import pytest

from tests.gateway.fake_worker import Script
from tests.gateway.harness import MODEL, Gateway, eventually
from weir_core.errors import LimitExceeded, Reason

pytestmark = pytest.mark.asyncio(loop_scope="module")

ORIGIN = {"origin": "https://app.example"}
CHINESE = "模型/千问"


async def test_case_2_litellm_37001_two_bounds_that_differ_are_refused(gateway: Gateway) -> None:
    answer = await gateway.chat(max_tokens=1, max_completion_tokens=100)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "max_tokens"
    assert not gateway.limiter.accounts


async def test_case_13_litellm_34217_keys_of_a_deleted_tenant_end_at_once(
    gateway: Gateway,
) -> None:
    for worker in gateway.workers:
        worker.script = Script(pieces=["a"] * 9, pause_after=1)
    body = {"model": MODEL, "messages": [{"role": "user", "content": "hi"}], "stream": True}
    async with gateway.http.stream("POST", "/v1/chat/completions", json=body) as answer:
        lines = answer.aiter_lines()
        assert "assistant" in await anext(lines)
        await gateway.reload(gateway.document | {"tenants": gateway.document["tenants"][1:]})
        try:
            rest = [line async for line in lines]
            assert any("API_KEY_REVOKED" in line for line in rest)
            refused = await gateway.http.get("/v1/models")
            assert refused.status_code == 401
            other = {"authorization": f"Bearer {gateway.other_key.secret}"}
            assert (await gateway.http.get("/v1/models", headers=other)).status_code == 200
        finally:
            await gateway.reload(gateway.document)
    gateway.reset()
    assert (await gateway.chat(max_tokens=1)).status_code == 200


async def test_case_14_litellm_25553_a_request_in_flight_brings_no_old_key_back(
    gateway: Gateway,
) -> None:
    for worker in gateway.workers:
        worker.script = Script(pieces=["a"] * 3, pause_after=1)
    body = {"model": MODEL, "messages": [{"role": "user", "content": "hi"}], "stream": True}
    acme = gateway.document["tenants"][0]
    lower = acme | {"policy": acme["policy"] | {"max_priority": 3}}
    async with gateway.http.stream("POST", "/v1/chat/completions", json=body) as answer:
        assert answer.headers["x-weir-priority"] == "0"
        await gateway.reload(
            gateway.document | {"tenants": [lower, *gateway.document["tenants"][1:]]}
        )
        for worker in gateway.workers:
            worker.resume.set()
        _ = [line async for line in answer.aiter_lines()]
    try:
        for _ in range(3):
            after = await gateway.chat(max_tokens=1, priority=9)
            assert after.headers["x-weir-priority"] == "3"
    finally:
        await gateway.reload(gateway.document)
    assert (await gateway.chat(max_tokens=1, priority=9)).headers["x-weir-priority"] == "9"


async def test_case_19_litellm_34633_names_and_headers_of_any_script(gateway: Gateway) -> None:
    headers = {b"x-title": "标题".encode(), b"x-request-id": "é".encode("latin-1")}
    body = {"model": MODEL, "prompt": "你好", "max_tokens": 2, "conversation_id": "对话"}
    for stream in (False, True):
        answer = await gateway.http.post(
            "/v1/completions", json=body | {"stream": stream}, headers=headers
        )
        assert answer.status_code == 200, answer.text
        assert all(value.isascii() for value in answer.headers.values())
    # What cannot be sent on in a header is refused before anything is held or computed.
    held = len(gateway.limiter.accounts)
    for name in (CHINESE, "模" * 5_000, "a\r\nx-injected: 1", "\x00"):
        unknown = await gateway.http.post("/v1/completions", json=body | {"model": name})
        assert (unknown.status_code, "x-injected" in unknown.headers) == (404, False)
        assert len(unknown.content) < 1_000
    assert (await gateway.http.get(f"/v1/models/{CHINESE}")).status_code == 404
    assert len(gateway.limiter.accounts) == held
    # No model can have such a name.
    models = [gateway.document["models"][0] | {"name": CHINESE}]
    await gateway.reload(gateway.document | {"models": models})
    await gateway.reload(gateway.document)
    assert (await gateway.chat(max_tokens=1)).status_code == 200


async def test_case_21_vllm_4862_errors_too_have_what_browsers_need(gateway: Gateway) -> None:
    gateway.limiter.refuse = lambda _: LimitExceeded(
        Reason.TOKEN_LIMIT_EXCEEDED, "no tokens", [], retry_after_s=1.0
    )
    body = {"model": MODEL, "prompt": "x", "max_tokens": 1}
    http = gateway.http
    answers = {
        429: await http.post("/v1/completions", json=body, headers=ORIGIN),
        400: await http.post("/v1/completions", content=b"{", headers=ORIGIN),
        401: await http.get("/v1/models", headers=ORIGIN | {"authorization": ""}),
        404: await http.get("/v1/nothing", headers=ORIGIN),
        405: await http.get("/v1/completions", headers=ORIGIN),
    }
    for status, answer in answers.items():
        assert answer.status_code == status
        assert answer.headers["access-control-allow-origin"] == "*"
        exposed = answer.headers["access-control-expose-headers"]
        assert {"retry-after", "x-request-id"} <= {name.strip() for name in exposed.split(",")}
    for path, method in (("/v1/prefixes/a", "PUT"), ("/v1/files/a", "DELETE")):
        asked = ORIGIN | {"access-control-request-method": method}
        preflight = await http.options(path, headers=asked | {"authorization": ""})
        assert preflight.status_code == 200, preflight.text


async def test_case_23_posthog_50542_a_user_that_a_client_names_is_nobodys_account(
    gateway: Gateway,
) -> None:
    for user in ("alice", "bob", "globex/alice", "", "-1"):
        assert (await gateway.chat(max_tokens=1, user=user)).status_code == 200
    other = {"authorization": f"Bearer {gateway.other_key.secret}"}
    body = {"model": MODEL, "prompt": "x", "max_tokens": 1, "user": "alice"}
    assert (await gateway.http.post("/v1/completions", json=body, headers=other)).is_success
    await eventually(lambda: not gateway.limiter.open_accounts)
    subjects = [account.request.subject for account in gateway.limiter.accounts.values()]
    told = [(subject.tenant_id, subject.user_id) for subject in subjects]
    assert told == [("acme", "alice")] * 5 + [("globex", "alice")]
