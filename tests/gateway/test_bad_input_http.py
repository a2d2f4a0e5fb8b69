"""Bad input over HTTP: a 4xx that names field, value and bound, and the next request works."""

import json
from typing import Any

import pytest

from tests.gateway.harness import MAX_CONTEXT, MODEL, Gateway

pytestmark = pytest.mark.asyncio(loop_scope="module")

USER = [{"role": "user", "content": "hi"}]
CHAT: dict[str, Any] = {"model": MODEL, "messages": USER}

# Changes to a good body -> what the error names: field, and texts of its message.
FIELDS: list[tuple[dict[str, Any], str, tuple[str, ...]]] = [
    ({"messages": []}, "messages", ("array of 0", "at least one message")),
    ({"messages": None}, "messages", ("null", "at least one message")),
    ({"messages": "hi"}, "messages", ("a text of 2 characters",)),
    ({"messages": {"role": "user"}}, "messages", ("an object with 1 fields",)),
    ({"messages": ["hi"]}, "messages[0]", ("an object",)),
    ({"messages": [{"content": "x"}]}, "messages[0].role", ("null", "a string")),
    ({"messages": [{"role": "wizard", "content": "x"}]}, "messages[0].role", ("wizard", "system")),
    ({"messages": [*USER, {"role": 3, "content": "x"}]}, "messages[1].role", ("3",)),
    ({"messages": [{"role": "user"}]}, "messages[0].content", ("null", "a string or an array")),
    ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content", ("5",)),
    ({"messages": [{"role": "user", "content": "\ud800"}]}, "messages[0].content", ("ud800",)),
    ({"messages": [{"role": "user", "content": ["x"]}]}, "messages[0].content[0]", ("object",)),
    (
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]},
        "messages[0].content[0].type",
        ("image_url", "only text"),
    ),
    ({"messages": [{**USER[0], "weight": 1}]}, "messages[0].weight", ("no such field",)),
    ({"messages": [{"role": "tool", "content": "x"}]}, "messages", ("no tools here",)),
    ({"model": None}, "model", ("null", "name of a model")),
    ({"model": ""}, "model", ("''",)),
    ({"model": 7}, "model", ("7",)),
    ({"model": "nobody"}, "model", ("nobody", "/v1/models")),
    ({"model": "模型"}, "model", ("模型",)),
    ({"model": "x" * 5000}, "model", ("xxx",)),
    ({"model": "\ud800"}, "model", ("ud800",)),
    ({"model": "org/secret"}, "model", ("no model",)),
    ({"model_version": "v9"}, "model_version", ("v1",)),
    ({"max_tokens": 0}, "max_tokens", ("is 0", "1 to 200")),
    ({"max_tokens": -1}, "max_tokens", ("is -1", "1 to 200")),
    ({"max_tokens": 201}, "max_tokens", ("is 201", "1 to 200")),
    ({"max_tokens": 10**30}, "max_tokens", ("1000000", "1 to 200")),
    ({"max_tokens": 2**63}, "max_tokens", ("1 to 200",)),
    ({"max_tokens": 1.5}, "max_tokens", ("1.5", "an integer")),
    ({"max_tokens": "10"}, "max_tokens", ("'10'", "an integer")),
    ({"max_tokens": True}, "max_tokens", ("true", "an integer")),
    ({"max_tokens": [1]}, "max_tokens", ("an integer",)),
    ({"max_completion_tokens": 0}, "max_completion_tokens", ("is 0",)),
    ({"max_new_tokens": -5}, "max_new_tokens", ("is -5",)),
    ({"max_tokens": 1, "max_completion_tokens": 9}, "max_tokens", ("1", "9")),
    ({"temperature": -0.1}, "temperature", ("-0.1", "0 to 2")),
    ({"temperature": 2.1}, "temperature", ("2.1", "0 to 2")),
    ({"temperature": "hot"}, "temperature", ("'hot'", "a number")),
    ({"temperature": True}, "temperature", ("true", "a number")),
    ({"temperature": 10**400}, "temperature", ("finite",)),
    ({"top_p": 0}, "top_p", ("0", "above 0")),
    ({"top_p": 1.01}, "top_p", ("1.01", "at most 1")),
    ({"top_k": -2}, "top_k", ("-2",)),
    ({"top_k": 10**9}, "top_k", ("1000000000", "259")),
    ({"top_k": 1.0}, "top_k", ("an integer",)),
    ({"seed": 2**63}, "seed", ("64 bits",)),
    ({"seed": "x"}, "seed", ("an integer",)),
    ({"stop": ""}, "stop[0]", ("0 characters", "1 to 256 characters")),
    ({"stop": ["a", ""]}, "stop[1]", ("1 to 256 characters",)),
    ({"stop": ["a"] * 17}, "stop", ("17", "at most 16")),
    ({"stop": ["a" * 257]}, "stop[0]", ("257", "1 to 256")),
    ({"stop": 5}, "stop", ("5", "a string")),
    ({"stop": [5]}, "stop[0]", ("5", "a string")),
    ({"stop_token_ids": [-1]}, "stop_token_ids[0]", ("-1", "0 to 258")),
    ({"stop_token_ids": [1] * 65}, "stop_token_ids", ("65", "64")),
    ({"stop_token_ids": ["a"]}, "stop_token_ids[0]", ("an integer",)),
    ({"stream": "yes"}, "stream", ("'yes'", "true or false")),
    ({"stream": 1}, "stream", ("1", "true or false")),
    ({"stream_options": {"include_usage": True}}, "stream_options", ("stream: true",)),
    ({"stream": True, "stream_options": []}, "stream_options", ("an object",)),
    ({"stream": True, "stream_options": {"x": 1}}, "stream_options.x", ("no such field",)),
    ({"priority": -1}, "priority", ("-1", "0 to 100")),
    ({"priority": 101}, "priority", ("101", "0 to 100")),
    ({"priority": "high"}, "priority", ("'high'",)),
    ({"class": "vip"}, "class", ("'vip'", "interactive, batch")),
    ({"latency_sla": "max"}, "latency_sla", ("'max'", "low, normal, throughput")),
    ({"conversation_id": "c" * 257}, "conversation_id", ("256",)),
    ({"session_id": "s" * 129}, "session_id", ("129", "128")),
    ({"ignore_eos": "no"}, "ignore_eos", ("true or false",)),
    ({"max_token": 5}, "max_token", ("no such field",)),
    ({"n": 9}, "n", ("9", "1 to 8")),
    ({"n": 0}, "n", ("0", "1 to 8")),
    ({"n": "2"}, "n", ("an integer",)),
    ({"best_of": 2}, "best_of", ("equal n (1)",)),
    ({"logprobs": 3}, "logprobs", ("true or false",)),
    ({"top_logprobs": 5}, "top_logprobs", ("5", "logprobs: true")),
    ({"logprobs": True, "top_logprobs": 21}, "top_logprobs", ("21", "0 to 20")),
    ({"presence_penalty": 2.5}, "presence_penalty", ("2.5", "-2 to 2")),
    ({"frequency_penalty": -3}, "frequency_penalty", ("-3", "-2 to 2")),
    ({"repetition_penalty": 0}, "repetition_penalty", ("above 0", "10")),
    ({"min_p": 1.5}, "min_p", ("1.5", "0 to 1")),
    ({"min_tokens": -1}, "min_tokens", ("-1", "0 or more")),
    ({"min_tokens": 10, "max_tokens": 9}, "min_tokens", ("10", "max_tokens", "9")),
    ({"min_tokens": 10**30}, "min_tokens", ("0 or more",)),
    ({"logit_bias": [1]}, "logit_bias", ("array of 1", "object")),
    ({"logit_bias": {"x": 1}}, "logit_bias", ("'x'", "token ids")),
    ({"logit_bias": {"-1": 1}}, "logit_bias", ("'-1'", "token ids")),
    ({"logit_bias": {"1": "a"}}, "logit_bias[1]", ("number",)),
    ({"logit_bias": {"1": 101}}, "logit_bias[1]", ("101", "-100 to 100")),
    ({"logit_bias": {"1": 10**400}}, "logit_bias[1]", ("-100 to 100",)),
    ({"logit_bias": {"99999": 1}}, "logit_bias", ("99999", "0 to 258")),
    ({"logit_bias": {str(i): 1 for i in range(301)}}, "logit_bias", ("301", "300")),
    ({"regex": "\ud800"}, "regex", ("ud800 at character 0", "UTF-8")),
    ({"lark_grammar": 'start: "\udfff"'}, "lark_grammar", ("udfff", "UTF-8")),
    ({"json_schema": '{"const": "\ud800"}'}, "json_schema", ("ud800", "UTF-8")),
    ({"response_format": "json"}, "response_format", ("an object",)),
    ({"response_format": {"type": "xml"}}, "response_format.type", ("'xml'", "json_schema")),
    ({"response_format": {"type": "json_object", "x": 1}}, "response_format.x", ("no such",)),
    ({"response_format": {"type": "json_schema"}}, "response_format.json_schema", ("schema",)),
    (
        {"response_format": {"type": "json_schema", "json_schema": {"name": "a b"}}},
        "response_format.json_schema.name",
        ("'a b'", "64"),
    ),
    (
        {"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": 5}}},
        "response_format.json_schema.schema",
        ("5", "object"),
    ),
    ({"regex": 5}, "regex", ("a string",)),
    ({"regex": "a" * 70_000}, "regex", ("70000", "65536")),
    ({"json_schema": "{"}, "json_schema", ("JSON",)),
    ({"json_schema": json.loads('{"a":' * 40 + "1" + "}" * 40)}, "json_schema", ("32 levels",)),
    ({"regex": "a", "lark_grammar": "b"}, "lark_grammar", ("left out", "regex")),
    ({"regex": "a", "min_tokens": 2}, "min_tokens", ("regex",)),
    (
        {"tools": [{"type": "function", "function": {"name": "f"}}]},
        "tools",
        ("chat template", "no format"),
    ),
    ({"functions": [{"name": "f"}]}, "functions", ("send tools",)),
    ({"audio": {"voice": "x"}}, "audio", ("not supported",)),
    ({"modalities": ["audio"]}, "modalities", ("not supported",)),
    ({"store": True}, "store", ("not supported",)),
    ({"reasoning_effort": "high"}, "reasoning_effort", ("not supported",)),
    (
        {"messages": [{"role": "user", "content": "x" * 400}]},
        "messages",
        ("tokens", f"{MAX_CONTEXT}", "shorten the prompt"),
    ),
    (
        {"messages": [{"role": "user", "content": "x" * 100}], "max_tokens": 199},
        "messages",
        ("max_tokens is 199", f"takes {MAX_CONTEXT}", "at most"),
    ),
    ({"messages": [{"role": "user", "content": "x" * 3_000_000}]}, "messages", ("characters",)),
]


@pytest.mark.parametrize(
    ("change", "field", "told"), FIELDS, ids=[f"{i}-{f[1]}" for i, f in enumerate(FIELDS)]
)
async def test_a_bad_field(
    gateway: Gateway, change: dict[str, Any], field: str, told: tuple[str, ...]
) -> None:
    body = json.dumps(CHAT | change).encode()
    response = await gateway.http.post("/v1/chat/completions", content=body)
    await refused(gateway, response, field, told)


COMPLETIONS: list[tuple[dict[str, Any], str, tuple[str, ...]]] = [
    ({"prompt": ""}, "prompt", ("0 characters", "at least one character")),
    ({"prompt": None}, "prompt", ("null",)),
    ({"prompt": []}, "prompt", ("array of 0",)),
    ({"prompt": [1, -1]}, "prompt[1]", ("-1", "0 to 258")),
    ({"prompt": [1, 10**9]}, "prompt[1]", ("1000000000",)),
    ({"prompt": [1, "a"]}, "prompt", ("one prompt",)),
    ({"prompt": ["a", "b"]}, "prompt", ("one prompt",)),
    ({"prompt": 5}, "prompt", ("5",)),
    ({"prompt": "\udfff"}, "prompt", ("udfff",)),
    ({"prompt": "x", "echo": 1}, "echo", ("true or false",)),
    ({"prompt": "x", "suffix": "y"}, "suffix", ("not supported",)),
    ({"prompt": "x", "best_of": 2}, "best_of", ("not supported",)),
    ({"prompt": "x", "logprobs": 6}, "logprobs", ("6", "0 to 5")),
    ({"prompt": "x", "logprobs": True}, "logprobs", ("an integer",)),
    ({"prompt": "x", "shared_prefix_characters": 2}, "shared_prefix_characters", ("0 to 1",)),
    ({"prompt": "x", "messages": USER}, "messages", ("no such field",)),
    ({"prompt": "x" * MAX_CONTEXT}, "prompt", (f"{MAX_CONTEXT} tokens",)),
]


@pytest.mark.parametrize(
    ("change", "field", "told"), COMPLETIONS, ids=[f"{i}-{c[1]}" for i, c in enumerate(COMPLETIONS)]
)
async def test_a_bad_completion(
    gateway: Gateway, change: dict[str, Any], field: str, told: tuple[str, ...]
) -> None:
    body = json.dumps({"model": MODEL} | change).encode()
    response = await gateway.http.post("/v1/completions", content=body)
    await refused(gateway, response, field, told)


GOOD = json.dumps(CHAT).encode()
RAW: list[tuple[bytes, int, tuple[str, ...]]] = [
    (b"", 400, ("empty",)),
    (b"{", 400, ("not JSON", "character 1")),
    (b"[]", 400, ("not a JSON object",)),
    (b"null", 400, ("not a JSON object",)),
    (b'"x"', 400, ("not a JSON object",)),
    (b"\xff\xfe{}", 400, ("not UTF-8 at byte 0",)),
    (GOOD.replace(b"hi", b"\xe4\xb8"), 400, ("not UTF-8",)),
    (b'{"temperature": NaN}', 400, ("NaN",)),
    (b'{"temperature": -Infinity}', 400, ("-Infinity",)),
    (b'{"model": "tiny", "model": "x"}', 400, ("'model' is there twice",)),
    (b'{"a": {"b": 1, "b": 2}}', 400, ("'b' is there twice",)),
    (b'{"max_tokens": 1' + b"0" * 5000 + b"}", 400, ("not JSON",)),
    (b"[" * 100_000, 400, ("nested too deeply",)),
    (GOOD + b"x", 400, ("Extra data",)),
    (b'{"x": "' + b"y" * 4_000_000 + b'"}', 413, ("4000009 bytes", "4000000")),
]


@pytest.mark.parametrize(("body", "status", "told"), RAW, ids=range(len(RAW)))
async def test_a_bad_body(
    gateway: Gateway, body: bytes, status: int, told: tuple[str, ...]
) -> None:
    response = await gateway.http.post("/v1/chat/completions", content=body)
    assert response.status_code == status
    error = response.json()["error"]
    assert error["param"] == "body"
    for text in told:
        assert text in error["message"], error["message"]
    assert (await gateway.chat(max_tokens=1)).status_code == 200


async def test_a_body_without_length_is_bounded_while_it_is_read(gateway: Gateway) -> None:
    async def endless() -> Any:
        for _ in range(200):
            yield b"x" * 100_000

    response = await gateway.http.post("/v1/chat/completions", content=endless())
    assert response.status_code == 413
    assert (await gateway.chat(max_tokens=1)).status_code == 200


async def test_a_huge_number_that_becomes_infinite(gateway: Gateway) -> None:
    body = GOOD[:-1] + b', "temperature": 1e999}'
    response = await gateway.http.post("/v1/chat/completions", content=body)
    await refused(gateway, response, "temperature", ("inf", "finite"))


@pytest.mark.parametrize("name", ["authorization", "x-api-key", "idempotency-key"])
async def test_what_says_who_asks_is_said_once(gateway: Gateway, name: str) -> None:
    own = {"authorization": f"Bearer {gateway.key.secret}"}.get(name, "x")
    headers = [(name, own), (name.title(), own)]
    for method, path in (("POST", "/v1/chat/completions"), ("GET", "/v1/models")):
        response = await gateway.http.request(method, path, content=GOOD, headers=headers)
        assert (response.status_code, response.json()["error"]["param"]) == (400, name)
        assert "twice; send it once" in response.json()["error"]["message"]
    assert (await gateway.chat(max_tokens=1)).status_code == 200


HARMLESS: list[dict[str, Any]] = [
    {"n": 1, "stream": None, "stop": None, "max_tokens": None, "tools": [], "functions": None},
    {"temperature": 0, "top_p": 1, "top_k": 0, "presence_penalty": 0, "frequency_penalty": 0.0},
    {"user": "u", "metadata": {"a": "b"}, "store": False, "service_tier": "auto"},
    {"logprobs": False, "response_format": {"type": "text"}, "logit_bias": {}},
    {"max_tokens": 5, "max_completion_tokens": 5, "max_new_tokens": 5, "seed": -(2**63)},
    {"messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]},
    {"messages": [*USER, {"role": "assistant", "content": "yes", "refusal": None}, *USER]},
    {"messages": [{"role": "developer", "content": "be brief", "name": "d"}, *USER]},
    {"stop": "a", "temperature": 2, "top_k": -1, "priority": 100},
    {"temperature": 1e-9, "top_p": 1e-9},
]


@pytest.mark.parametrize("change", HARMLESS, ids=range(len(HARMLESS)))
async def test_what_changes_nothing_is_accepted(gateway: Gateway, change: dict[str, Any]) -> None:
    response = await gateway.chat(**change)
    assert response.status_code == 200, response.text


async def test_the_longest_prompt_gets_one_token(gateway: Gateway) -> None:
    body = {"model": MODEL, "prompt": "x" * (MAX_CONTEXT - 1)}
    response = await gateway.http.post("/v1/completions", json=body)
    assert response.status_code == 200
    assert response.json()["usage"]["completion_tokens"] == 1
    assert response.json()["choices"][0]["finish_reason"] == "length"


async def test_over_the_context_is_told_in_numbers_and_never_retried(gateway: Gateway) -> None:
    response = await gateway.chat(max_tokens=200, messages=[{"role": "user", "content": "x" * 90}])
    error = response.json()["error"]
    assert (response.status_code, error["code"]) == (400, "context_length_exceeded")
    assert (error["limit_type"], error["resource"], error["unit"]) == (
        "context",
        "context_tokens",
        "tokens",
    )
    assert error["limit"] == MAX_CONTEXT < error["requested"]
    assert (error["limit_id"], error["reset_time"]) == (f"model:{MODEL}/max_context_tokens", None)
    assert response.headers["x-should-retry"] == "false"


async def refused(gateway: Gateway, response: Any, field: str, told: tuple[str, ...]) -> None:
    assert 400 <= response.status_code < 500, response.text
    error = response.json()["error"]
    assert error["param"] == field, error
    for text in told:
        assert text in error["message"], error["message"]
    assert isinstance(error["code"], str)
    assert response.headers["x-request-id"].startswith("req_")
    assert not gateway.limiter.accounts
    good = await gateway.chat(max_tokens=1)
    assert good.status_code == 200
