"""`weir up` with the real services and the model that computes nothing."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from tests.cli.command import weir
from tests.cli.running_stack import SERVING, RunningStack
from tests.ratelimiter.valkey import running_valkey
from weir.common.v1.sampling_pb2 import FINISH_REASON_LENGTH
from weir.gateway.v1 import inference_service_pb2 as wire
from weir.gateway.v1.inference_service_pb2_grpc import InferenceServiceStub
from weir_cli.stack.first_answer import QUESTION

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"),
    pytest.mark.timeout(180),
]


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningStack]:
    with RunningStack(tmp_path_factory.mktemp("stack"), "--null") as running:
        running.wait_for(SERVING)
        yield running


def ask(stack: RunningStack, *, max_new_tokens: int = 5) -> Iterator[wire.GenerateResponse]:
    with grpc.insecure_channel(stack.value("gRPC")) as channel:
        request = wire.GenerateRequest(
            model=stack.value("model"), prompt="Hello", max_new_tokens=max_new_tokens, stream=True
        )
        request.sampling.ignore_eos = True
        metadata = (("authorization", f"Bearer {stack.value('API key')}"),)
        yield from InferenceServiceStub(channel).Generate(request, metadata=metadata, timeout=60)


def shell(command: str) -> str:
    done = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def pasted(stack: RunningStack, start: str, end: str = "\n") -> str:
    text = stack.output
    begin = text.index(start)
    return text[begin : text.index(end, begin)]


def test_an_answer_is_streamed_and_the_first_url_is_the_openai_base(stack: RunningStack) -> None:
    text = stack.output
    assert f"> {QUESTION}" in text
    assert "tokens in" in text
    base = text[text.index("http://") :].split()[0]
    assert base == f"http://{stack.value('OpenAI base').removeprefix('http://')}"
    assert base.endswith("/v1")


def test_the_curl_line_works_as_pasted(stack: RunningStack) -> None:
    if subprocess.run(["which", "curl"], capture_output=True).returncode:
        pytest.skip("curl is not installed")
    answer = shell(pasted(stack, "curl -s "))
    assert '"chat.completion"' in answer
    assert '"usage"' in answer


def test_the_grpc_snippet_works_as_pasted(stack: RunningStack) -> None:
    assert shell(pasted(stack, f"{sys.executable} - <<", "\n\nOr talk")).strip()


def test_the_chat_line_works_as_pasted(stack: RunningStack) -> None:
    line = pasted(stack, "WEIR_API_KEY=")
    assert "tokens in" in shell(f"echo Hello | {line} --max-new-tokens 5")


def test_every_metric_that_people_look_for_first_is_there(
    stack: RunningStack, repo_root: Path
) -> None:
    list(ask(stack))
    page = (repo_root / "docs" / "metrics.md").read_text(encoding="utf-8")
    section = page[: page.index("## Labels")]
    rows = [line for line in section.splitlines() if line.startswith("|")]
    named = {name for row in rows for name in re.findall(r"`([a-z]\w+)`", row)}
    urls = [line.split()[1] for line in stack.output.splitlines() if line.startswith("metrics ")]
    assert (len(urls), len(named) > 20) == (4, True)
    served = "".join(urllib.request.urlopen(url, timeout=10).read().decode() for url in urls)
    assert {name for name in named if f"# TYPE {name} " not in served} == set()


def test_a_refused_edit_of_the_directory_is_told_at_the_terminal(stack: RunningStack) -> None:
    file = stack.folder / "state" / "directory.yaml"
    good = file.read_text()
    try:
        file.write_text(good.replace("plan: demo", "plan: none"))
        output = stack.wait_for("directory refused, the last good version stays in force: ")
    finally:
        file.write_text(good)
    assert f"{file}: line " in output
    assert "tenant 'demo': there is no plan 'none'" in output


def test_no_key_and_no_secret_stands_in_a_command_line_or_a_log(stack: RunningStack) -> None:
    secrets = [stack.value("API key"), (stack.folder / "state" / "cluster_secret").read_text()]
    seen = [*stack.children().values()]
    seen += [path.read_text() for path in (stack.folder / "state" / "logs").iterdir()]
    seen += [path.read_text() for path in (stack.folder / "state").glob("*.yaml")]
    assert not [text for text in seen for secret in secrets if secret in text]


def test_explain_shows_the_account_of_the_running_stack(stack: RunningStack) -> None:
    where = ("--state-dir", str(stack.folder / "state"))

    def told(*arguments: str) -> str:
        done = weir(*arguments, *where)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    def refused(*arguments: str) -> str:
        done = weir(*arguments, *where)
        assert (done.returncode, done.stdout) == (1, "")
        return done.stderr

    ask_for = ("--model", stack.value("model"), "--prompt-tokens", "2000000")
    text = told("explain", "demo", *ask_for, "--max-new-tokens", "5")
    assert "tenant:demo/tpm" in text
    assert re.search(r"tenant:demo/tpm: .* tokens", text)
    assert "5 output tokens would now be refused:" in text
    limits = json.loads(told("explain", "demo", "-o", "json"))["limits"]
    assert {entry["limit_id"] for entry in limits} >= {"tenant:demo/concurrency"}
    assert "error: " in refused("explain", "")
    request_id = next(r.accepted.request_id for r in list(ask(stack)) if r.HasField("accepted"))
    ended = told("explain", "demo", "--request", request_id)
    assert ended.startswith(f"request {request_id}: SETTLED\n  outcome ok, ended at ")
    assert "+ 5 output tokens, cost 0" in ended
    line = refused("explain", "demo", "--request", "req_0")
    assert "a request that was refused holds none" in line
    assert "user bbo is not in the directory" in refused("explain", "demo", "--user", "bbo")
    adjust = ("limits", "adjust", "demo", "tpm", "1k", "--take", "--id", "test", "--note", "a test")
    assert "adjustment test is made" in told(*adjust)
    assert "adjustment test had been made already" in told(*adjust)


@pytest.mark.parametrize("service", ["weir_worker", "weir_ratelimiter", "weir_scheduler"])
def test_a_service_that_is_killed_comes_back(stack: RunningStack, service: str) -> None:
    (pid,) = (pid for pid, line in stack.children().items() if f"-m {service} " in line)
    before = stack.output.count(" is back")
    os.kill(pid, signal.SIGKILL)
    ends_at = time.monotonic() + 60
    while stack.output.count(" is back") == before:
        assert time.monotonic() < ends_at, stack.output
        time.sleep(0.05)
    assert "ended (signal 9; log: " in stack.output
    while True:
        try:
            answer = list(ask(stack))
            break
        except grpc.RpcError:
            assert time.monotonic() < ends_at
            time.sleep(0.1)
    assert answer[-1].finished.usage.completion_tokens == 5


# The last that the module's stack is asked.
def test_ctrl_c_lets_a_running_answer_end(stack: RunningStack) -> None:
    answer = ask(stack, max_new_tokens=2_000)
    seen = [next(answer)]
    while not seen[-1].HasField("delta"):
        seen.append(next(answer))
    stack.interrupt()
    seen += list(answer)
    assert seen[-1].finished.finish_reason == FINISH_REASON_LENGTH
    assert seen[-1].finished.usage.completion_tokens == 2_000
    assert stack.process.wait(60) == 0, stack.output
    assert "was killed" not in stack.output
    assert stack.children() == {}


def test_once_ends_after_the_answer_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Where it is run is no place to import from.
    (tmp_path / "uvicorn.py").write_text("raise RuntimeError('imported from the work folder')")
    monkeypatch.chdir(tmp_path)
    with RunningStack(tmp_path, "--null", "--once", "--workers", "2") as running:
        assert running.process.wait(90) == 0, running.output
        assert "tokens in" in running.output
        assert SERVING not in running.output
        assert running.children() == {}
    with (
        running_valkey(tmp_path / "valkey") as valkey,
        RunningStack(tmp_path, "--null", "--once", "--quiet", "--store", valkey.url) as again,
    ):
        assert again.process.wait(90) == 0, again.output
        assert again.output == ""
        with valkey.client() as client:
            assert client.dbsize() > 0


def test_ctrl_c_twice_ends_at_once(tmp_path: Path) -> None:
    with RunningStack(tmp_path, "--null") as running:
        running.wait_for(SERVING)
        stopped = [pid for pid, line in running.children().items() if "-m weir_gateway" in line]
        os.kill(stopped[0], signal.SIGSTOP)
        running.interrupt()
        running.wait_for("Draining")
        running.interrupt()
        running.process.wait(20)
        assert running.children() == {}


def test_ctrl_c_while_it_starts(tmp_path: Path) -> None:
    with RunningStack(tmp_path, "--null") as running:
        running.wait_for("Starting Tokenweir")
        running.interrupt()
        assert running.process.wait(30) == 0, running.output
        assert running.children() == {}


def refused(tmp_path: Path, *arguments: str, **environment: str) -> str:
    where = ["--state-dir", str(tmp_path / "state")]
    environment |= {"TOKENWEIR_HOME": str(tmp_path / "home")}
    done = weir("up", "--once", *where, *arguments, **environment)
    assert done.returncode == 1, done.stdout + done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    return done.stderr


def test_a_port_in_use(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        line = refused(tmp_path, "--null", "--port", str(port))
    assert f"127.0.0.1:{port}: Address already in use; choose another --port" in line


def test_a_bad_setting_of_a_service(tmp_path: Path) -> None:
    # Of the service that is started first: the others need not be.
    line = refused(tmp_path, "--null", "--port", "0", WEIR_RATELIMITER__TTL_S="-1")
    assert line.startswith("error: ratelimiter did not start: ttl_s is '-1'; it must be")
    assert "WEIR_RATELIMITER__TTL_S" in line
    assert str(tmp_path / "state" / "logs" / "ratelimiter.log") in line


def test_a_bad_directory_file(tmp_path: Path) -> None:
    file = tmp_path / "directory.yaml"
    file.write_text("tenants:\n  - {id: acme, plan: none, users: [{id: a}]}\n")
    line = refused(tmp_path, "--null", "--port", "0", "--directory", str(file))
    assert line.startswith(f"error: {file}: ")
    assert "plan" in line


def test_a_directory_file_without_the_model_that_is_served(tmp_path: Path) -> None:
    file = tmp_path / "directory.yaml"
    file.write_text("models: [{name: other, max_context: 8, versions: [{version: a, folder: /m}]}]")
    line = refused(tmp_path, "--null", "--port", "0", "--directory", str(file))
    assert line.startswith(f"error: {file}: models: 'null', which is to be served, is not there")
    assert "(there: other)" in line


def test_a_model_folder_without_a_model(tmp_path: Path) -> None:
    line = refused(tmp_path, "--port", "0", "--model", str(tmp_path))
    assert "config.json: the file is missing; give another --model FOLDER" in line


def test_a_default_model_that_cannot_be_fetched(tmp_path: Path) -> None:
    offline = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path), "PIP_CONFIG_FILE": os.devnull}
    line = refused(tmp_path, "--port", "0", **offline)
    assert line.startswith("error: the default model cannot be fetched: ")
    assert "--model FOLDER" in line
