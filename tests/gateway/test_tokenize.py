"""`/v1/tokenize` and `/v1/detokenize`."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.gateway.harness import MODEL, Gateway
from tests.gateway.tool_site import CONTEXT, tool_gateway

pytestmark = pytest.mark.asyncio(loop_scope="module")
USER: Any = [{"role": "user", "content": "hï"}]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Gateway]:
    async with tool_gateway(tmp_path_factory.mktemp("tokenize")) as gateway:
        yield gateway


async def post(gateway: Gateway, path: str, body: dict[str, Any], status: int = 200) -> Any:
    response = await gateway.http.post(path, json={"model": MODEL} | body)
    assert response.status_code == status, response.text
    assert response.headers["x-request-id"].startswith("req_")
    return response.json()


async def test_a_text_there_and_back(gateway: Gateway) -> None:
    text = "wörld <|im_end|> 😀"
    told = await post(gateway, "/v1/tokenize", {"prompt": text, "return_token_strs": True})
    assert told["count"] == len(told["tokens"]) == len(told["token_strs"])
    assert told["max_model_len"] == CONTEXT
    assert "<|im_end|>" in told["token_strs"]
    back = await post(gateway, "/v1/detokenize", {"tokens": told["tokens"]})
    assert back == {"prompt": text}


async def test_a_chat_is_the_prompt_of_its_generation(gateway: Gateway) -> None:
    tools = [{"type": "function", "function": {"name": "now"}}]
    told = await post(gateway, "/v1/tokenize", {"messages": USER, "tools": tools})
    await gateway.chat(messages=USER, tools=tools, max_tokens=1)
    assert told["tokens"] == list(gateway.worker.specs[-1].prompt_token_ids)
    assert told["token_strs"] is None
    text = (await post(gateway, "/v1/detokenize", {"tokens": told["tokens"]}))["prompt"]
    assert text.startswith("Tools: ")
    assert text.endswith("user: hï\nassistant: ")
    await gateway.at_rest()


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("/v1/tokenize", {}, "messages"),
        ("/v1/tokenize", {"prompt": 3}, "prompt"),
        ("/v1/tokenize", {"prompt": "x", "add_special_tokens": False}, "add_special_tokens"),
        ("/v1/tokenize", {"prompt": "x", "nonsense": 1}, "nonsense"),
        ("/v1/tokenize", {"prompt": "x", "messages": USER}, "messages"),
        ("/v1/detokenize", {}, "tokens"),
        ("/v1/detokenize", {"tokens": []}, "tokens"),
        ("/v1/detokenize", {"tokens": ["x"]}, "tokens"),
        ("/v1/detokenize", {"tokens": [True]}, "tokens"),
        ("/v1/detokenize", {"tokens": [10**9]}, "tokens[0]"),
        ("/v1/detokenize", {"tokens": [1] * (CONTEXT + 1)}, "tokens"),
    ],
)
async def test_a_bad_field(gateway: Gateway, path: str, body: dict[str, Any], param: str) -> None:
    told = await post(gateway, path, body, 400)
    assert told["error"]["param"] == param


async def test_a_key_and_its_models(gateway: Gateway) -> None:
    for path, body in (
        ("/v1/tokenize", {"prompt": "x"}),
        ("/v1/detokenize", {"tokens": [1]}),
        ("/v1/messages/count_tokens", {"messages": USER}),
    ):
        secret = body | {"model": "org/secret"}
        assert (await gateway.http.post(path, json=secret)).status_code == 404
        headers = {"authorization": "Bearer wrong"}
        answer = await gateway.http.post(path, json=body | {"model": MODEL}, headers=headers)
        assert answer.status_code == 401
