"""`weir up` with several models, a GGUF file, a model without a chat template, an upstream."""

import json
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.cli.running_stack import SERVING, RunningStack
from tests.tiny_llama import write_tiny_gguf, write_tiny_llama

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"),
    pytest.mark.timeout(300),
]
_START_S = 200.0


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningStack]:
    folder = tmp_path_factory.mktemp("several")
    plain = write_tiny_llama(folder / "plain", seed=1)
    (plain / "chat_template.jinja").unlink()
    chatty = write_tiny_gguf(folder / "chatty.gguf", seed=2)
    arguments = ["--model", str(plain), "--model", str(chatty)]
    shares = ["--kv-memory", "8MiB", "--kv-memory", "chatty=4MiB"]
    with RunningStack(folder, *arguments, *shares) as running:
        running.wait_for(SERVING, _START_S)
        yield running


def post(stack: RunningStack, path: str, body: dict[str, Any]) -> dict[str, Any]:
    request = urllib.request.Request(
        f"{stack.value('OpenAI base')}/{path}",
        json.dumps({"max_tokens": 5, "temperature": 0, **body}).encode(),
        {
            "Authorization": f"Bearer {stack.value('API key')}",
            "Content-Type": "application/json",
        },
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            found: dict[str, Any] = json.load(answer)
    except urllib.error.HTTPError as error:
        found = json.load(error)
    return found


def test_every_model_answers_under_its_own_name(stack: RunningStack) -> None:
    texts = {}
    for model in ("plain", "chatty"):
        answer = post(stack, "completions", {"model": model, "prompt": "there which"})
        assert answer["model"] == model, answer
        assert answer["usage"]["completion_tokens"] == 5
        texts[model] = answer["choices"][0]["text"]
    assert texts["plain"] != texts["chatty"]
    assert "\nand model     chatty\n" in stack.output


def test_a_model_without_a_template_refuses_to_chat_and_says_what_works(
    stack: RunningStack,
) -> None:
    chat = {"messages": [{"role": "user", "content": "you"}]}
    refused = post(stack, "chat/completions", {"model": "plain", **chat})["error"]
    assert "no chat template; send a plain prompt to completions instead" in refused["message"]
    answer = post(stack, "chat/completions", {"model": "chatty", **chat})
    assert answer["usage"]["completion_tokens"] == 5
    curl = stack.output[stack.output.index("curl -s ") :].partition("\n")[0]
    assert "/v1/completions " in curl


def test_an_adapter_in_a_request_is_refused_with_a_reason(stack: RunningStack) -> None:
    for field in ("adapter_id", "lora_path"):
        body = {"model": "plain", "prompt": "you", field: "mine"}
        refused = post(stack, "completions", body)["error"]
        assert f"{field} is not supported: LoRA adapters are not built" in refused["message"]


def test_every_worker_has_its_share_of_memory_and_cores(stack: RunningStack) -> None:
    shares = {}
    for name in ("worker-1", "worker-2"):
        settings = yaml.safe_load((stack.folder / "state" / f"{name}.yaml").read_text())
        shares[settings["model_name"]] = settings["kv_memory_bytes"]
        assert settings["threads"] >= 1
    assert shares == {"plain": 8 << 20, "chatty": 4 << 20}
