"""`weir up` with TLS and several models: GGUF, without a chat template, an upstream."""

import asyncio
import json
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from tests.cli.running_stack import SERVING, RunningStack
from tests.tiny_llama import write_tiny_gguf, write_tiny_llama
from tests.worker.remote.upstream_server import MODEL, running_upstream
from weir_cli.app import app
from weir_cli.errors import CommandError

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
    tls = ["--tls", str(folder / "tls")]
    with RunningStack(folder, *arguments, *shares, *tls) as running:
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
    ca = stack.folder / "tls" / "ca.pem"
    trusting = ssl.create_default_context(cafile=ca) if ca.exists() else None
    try:
        with urllib.request.urlopen(request, timeout=60, context=trusting) as answer:
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


@pytest.fixture
def commands(stack: RunningStack) -> Callable[..., str]:
    """Runs a `weir` command on the stack."""

    def run(*arguments: str) -> str:
        state = ["--state-dir", str(stack.folder / "state")]
        result = CliRunner().invoke(app, [*arguments, *state], catch_exceptions=False)
        assert result.exit_code == 0, result.output
        return result.output

    return run


def test_with_tls_everybody_shows_a_certificate_and_commands_reach_them(
    stack: RunningStack, commands: Callable[..., str]
) -> None:
    assert stack.value("OpenAI base").startswith("https://")
    for name in ("ratelimiter", "scheduler", "worker-1", "worker-2", "gateway"):
        settings = yaml.safe_load((stack.folder / "state" / f"{name}.yaml").read_text())
        assert settings["tls"]["certificate"].endswith(f"{name.split('-')[0]}.pem")
    assert "worker-2-" in commands("workers", "ls")
    assert "tokens" in commands("explain", "demo")
    assert "plain" in commands("ledger", "usage", "--by", "model")


def test_with_tls_the_pasted_lines_work(stack: RunningStack) -> None:
    for begin in ("curl -s --cacert ", f"{sys.executable} - <<"):
        text = stack.output
        end = "\nEOF" if "<<" in begin else "\n"
        start = text.index(begin)
        command = text[start : text.index(end, start)] + (end if "<<" in begin else "")
        done = subprocess.run(
            ["bash", "-c", command], capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip()
        assert '"error"' not in done.stdout


# The last that the module's stack is asked.
def test_kill_9_of_the_supervisor_leaves_no_process(stack: RunningStack) -> None:
    assert len(stack.children()) >= 7, "four services more than one worker, and two engines"
    stack.process.kill()
    stack.process.wait(5)
    stack.wait_no_children(20)


async def test_another_engine_answers_in_the_place_of_the_workers_own(tmp_path: Path) -> None:
    folder = write_tiny_llama(tmp_path / "theirs")
    (folder / "model.safetensors").unlink()  # its weights are the upstream's affair
    async with running_upstream() as upstream:
        arguments = ["--model", str(folder), "--upstream-url", upstream.url]
        arguments += ["--upstream-model", MODEL]
        key = {"WEIR_WORKER__UPSTREAM_API_KEY": "secret-of-the-upstream"}
        with RunningStack(tmp_path / "stack", *arguments, environment=key) as running:
            await asyncio.to_thread(running.wait_for, SERVING, _START_S)
            body = {"model": "theirs", "prompt": "there which"}
            answer = await asyncio.to_thread(post, running, "completions", body)
            running.interrupt()
            await asyncio.to_thread(running.process.wait, 90)
    assert answer["usage"]["completion_tokens"] == 5, answer
    assert upstream.bodies[-1]["model"] == MODEL
    assert len(upstream.bodies[-1]["prompt"]) == answer["usage"]["prompt_tokens"]
    assert "Bearer secret-of-the-upstream" in upstream.authorizations


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("--upstream-url", "http://x/v1"), "--upstream-url needs one --model FOLDER, with tok"),
        (("--upstream-model", "m"), "--upstream-model needs --upstream-url"),
        (
            ("--upstream-url", "http://x/v1", "--model", "{one}"),
            "--upstream-url needs --upstream-model, the model's name there",
        ),
        (("--model", "{one}", "--model", "{other}"), "are both named 'tiny', after their folders"),
        (("--model", "{one}", "--kv-memory", "tiny=much"), "--kv-memory is 'much'; it must be a"),
        (("--model", "{one}", "--kv-memory", "x=1g"), "x=1g: no model 'x' (there: tiny)"),
        (("--model", "{gguf}", "--model", "{bare}"), "bare: it has no weights (*.safetensors)"),
        (("--model", "{gguf}", "--model", "{torn}"), "torn/model.safetensors: cannot be read"),
        (("--model", "{gguf}", "--model", "{one}/x"), "tiny/x: no folder, no GGUF file"),
        (("--model", "{adapter}"), "adapter_config.json: this is an adapter (LoRA), which is not"),
    ],
)
def test_what_cannot_be_started_is_told_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], line: str
) -> None:
    monkeypatch.setenv("TOKENWEIR_HOME", str(tmp_path / "home"))
    places = {
        "one": write_tiny_llama(tmp_path / "a" / "tiny"),
        "other": write_tiny_llama(tmp_path / "b" / "tiny"),
        "adapter": write_tiny_llama(tmp_path / "adapter"),
        "bare": write_tiny_llama(tmp_path / "bare"),
        "torn": write_tiny_llama(tmp_path / "torn"),
        "gguf": write_tiny_gguf(tmp_path / "converted.gguf"),
    }
    (places["bare"] / "model.safetensors").unlink()
    (places["torn"] / "model.safetensors").write_bytes(b"torn")
    (places["adapter"] / "adapter_config.json").write_text("{}")
    command = ["up", "--once", *(argument.format(**places) for argument in arguments)]
    result = CliRunner().invoke(app, command)
    assert isinstance(result.exception, CommandError), result.output
    assert line in str(result.exception)
    assert not (tmp_path / "home" / "models" / "converted").exists()
