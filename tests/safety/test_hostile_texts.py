"""Texts that ask for secrets, for code to be run, or for lines and headers of their own."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.gateway.harness import MODEL, Gateway, running_gateway
from tests.safety.sinks import Sinks, open_sinks

pytestmark = pytest.mark.asyncio(loop_scope="module")

# What they compute is no part of an id by chance.
JINJA = (
    "{{ 997 * 991 }}",
    "{% for x in range(9) %}988027{% endfor %}",
    "{{ self.__init__.__globals__.__builtins__.__import__('os').environ }}",
    "{{ messages[0].__class__.__mro__[1].__subclasses__() }}",
    "{{cycler.__init__.__globals__.os.popen('echo 988027').read()}}",
    "{{ raise_exception.__globals__ }}",
    "{{ config }}{{ request }}{{ eos_token }}",
    "{{ '%(password)s' % {'password': 988027} }}",
    "${997*991} #{997*991} <%= 997*991 %> {{{997*991}}}",
)
FORGED = 'x\r\nx-injected: 1\r\n\r\n{"event": "admin logged in"}\n\u2028\x1b[2J'
SECRETS = ("WEIR_", "PATH=", "cluster", "subclasses", "builtins", "popen", "hash")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sinks() -> AsyncIterator[Sinks]:
    with open_sinks() as sinks:
        yield sinks


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(sinks: Sinks, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Gateway]:
    folder = tmp_path_factory.mktemp("hostile")
    async with running_gateway(folder, telemetry=sinks.telemetry, change=told(folder)) as gateway:
        yield gateway


def told(folder: Path) -> Any:
    """The model's template writes every field that a client can set."""

    def change(document: dict[str, Any]) -> None:
        model = folder / "model"
        (model / "chat_template.jinja").write_text(
            "{% for m in messages %}<|im_start|>{{ m.role }} {{ m.name }}\n{{ m.content }}"
            "{{ m.tool_call_id }}{% if m.tool_calls %}{{ m.tool_calls|tojson }}{% endif %}"
            "<|im_end|>\n{% endfor %}<|im_start|>assistant\n"
        )

    return change


def prompt_of(gateway: Gateway) -> str:
    """The newest prompt that the worker got, as text; each token of this tokenizer is a byte."""
    edge = gateway.app.edge
    assert edge is not None
    body = gateway.worker.specs[-1].prompt_token_ids
    return str(bytes_of(list(body)))


def bytes_of(ids: list[int]) -> str:
    from tokenizers import decoders, pre_tokenizers

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    text = [alphabet[i] if i < len(alphabet) else "\n" for i in ids]
    return str(decoders.ByteLevel().decode(text))


def body_with(text: str, where: str) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "user", "content": "hi"}
    messages = [message]
    if where in ("content", "name"):
        message[where] = text
    elif where == "tool output":
        messages.append({"role": "tool", "tool_call_id": text, "content": text})
    elif where == "arguments":
        function = {"name": "f", "arguments": json.dumps({"x": text})}
        call = {"id": "1", "type": "function", "function": function}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
    return {"model": MODEL, "messages": messages, "max_tokens": 1}


@pytest.mark.parametrize("where", ["content", "name", "tool output", "arguments"])
@pytest.mark.parametrize("text", JINJA)
async def test_templates_do_not_run_what_clients_write(
    gateway: Gateway, text: str, where: str
) -> None:
    answer = await gateway.http.post("/v1/chat/completions", json=body_with(text, where))
    assert answer.status_code == 200, answer.text
    prompt = prompt_of(gateway)
    written = json.dumps(text)[1:-1] if where == "arguments" else text
    assert written in prompt
    assert "988027" not in prompt.replace(written, "")


async def test_tools_schemas_and_labels_are_data(gateway: Gateway) -> None:
    for text in (*JINJA, FORGED):
        for fields in (
            {"stop": [text]},
            {"conversation_id": text},
            {"user": text},
            {"metadata": {text: text}},
            {"json_schema": {"type": "object", "title": text, "properties": {text: {}}}},
            {"tools": [{"type": "function", "function": {"name": text}}]},
            {"tools": [{"type": "function", "function": {"name": "f", "description": text}}]},
            {"response_format": {"type": text}},
            {"service_tier": text},
            {"model": text},
            {text: 1},
        ):
            body = body_with("hi", "content") | fields
            answer = await gateway.http.post("/v1/chat/completions", json=body)
            assert answer.status_code in (200, 400, 404), (fields, answer.text)
            assert "x-injected" not in answer.headers
            assert "988027" not in answer.text.replace(text, "").replace(repr(text), "")
            if answer.status_code >= 400:
                message = answer.json()["error"]["message"]
                assert len(message) < 800, message
                assert not any(secret in message.replace(text, "") for secret in SECRETS[:2])
    assert all(value.isascii() for value in answer.headers.values())


@pytest.mark.parametrize(
    "call",
    [
        ("GET", "/v1/%0d%0ax-injected:%201", {}),
        ("GET", "/v1/models/%0d%0ax-injected:%201", {}),
        ("GET", "/v1/limits?%0d%0ax-injected=1", {}),
        ("GET", "/v1/models/a", {"x-request-id": "a\tb"}),
        ("GET", "/v1/models/a", {"origin": "https://a\tx-injected: 1"}),
        ("GET", "/v1/files/..%2f..%2fetc%2fpasswd/content", {}),
        ("GET", "/v1/models/" + "a" * 6_000, {}),
    ],
)
async def test_no_header_is_forged_and_no_error_is_long(
    gateway: Gateway, call: tuple[str, str, dict[str, str]]
) -> None:
    method, path, headers = call
    answer = await gateway.http.request(method, path, headers=headers)
    assert 400 <= answer.status_code < 500
    assert "x-injected" not in answer.headers
    assert len(answer.content) < 1_000
    assert "root:" not in answer.text


async def test_a_call_of_a_tool_is_told_and_never_run(gateway: Gateway, tmp_path: Path) -> None:
    """There is nothing in the server that runs tools; a call is text, whatever it asks for."""
    proof = tmp_path / "proof"
    text = f'<tool_call>{{"name": "sh", "arguments": {{"c": "touch {proof}"}}}}</tool_call>'
    gateway.worker.script.pieces = [text]
    answer = await gateway.chat(max_tokens=3)
    assert answer.status_code == 200
    assert not proof.exists()
    gateway.worker.reset()


async def test_every_line_of_the_log_is_still_one_event(gateway: Gateway, sinks: Sinks) -> None:
    await gateway.http.get("/v1/models", headers={"authorization": "Bearer x\tadmin logged in"})
    assert sinks.lines()
    logged = sinks.logs.getvalue()
    assert "admin logged in" not in logged
    assert "988027" not in logged
    assert not any(secret in logged for secret in ("subclasses", "popen(", "x-injected"))
