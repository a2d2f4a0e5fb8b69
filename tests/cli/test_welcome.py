import json
import shlex
from dataclasses import replace
from pathlib import Path

from weir_cli.stack.welcome import Welcome

WELCOME = Welcome(
    http="127.0.0.1:8000",
    grpc="127.0.0.1:8001",
    model="it's-a-model",
    key="wr_dev_key",
    new_key=True,
    state=Path("/state"),
    metrics={"gateway": "127.0.0.1:8000", "scheduler": "127.0.0.1:9003"},
)


def test_the_first_url_is_the_base_for_openai_clients() -> None:
    text = WELCOME.text()
    first = text[text.index("http") :].split()[0]
    assert first == "http://127.0.0.1:8000/v1"


def test_the_curl_line_is_one_line_that_a_shell_reads_as_meant() -> None:
    line = WELCOME.curl()
    assert "Authorization: Bearer wr_dev_key" in line
    assert "\n" not in line
    body = json.loads(shlex.split(line)[-1])
    assert body["model"] == "it's-a-model"


def test_the_snippet_is_a_program() -> None:
    program = WELCOME.snippet().split("<<'EOF'\n")[1].removesuffix("EOF")
    compile(program, "snippet", "exec")


def test_a_new_key_is_shown_once_and_a_key_of_the_user_is_not_called_so() -> None:
    assert "wr_dev_key   (shown once)\n" in WELCOME.text()
    own = replace(WELCOME, new_key=False).text()
    assert "API key       wr_dev_key\n" in own
    assert "shown once" not in own


def test_the_exports_are_what_the_examples_take() -> None:
    told = replace(WELCOME, ca=Path("/a folder/ca.pem"))
    assert told.exports() in told.text().splitlines()
    assert shlex.split(told.exports()) == [
        "export",
        "WEIR_URL=https://127.0.0.1:8000",
        "WEIR_TARGET=127.0.0.1:8001",
        "WEIR_API_KEY=wr_dev_key",
        "WEIR_MODEL=it's-a-model",
        "WEIR_STATE_DIR=/state",
        "WEIR_TLS_CA=/a folder/ca.pem",
    ]
    assert "WEIR_TLS_CA" not in WELCOME.exports()


def test_without_a_key_there_is_a_placeholder_that_a_shell_reads_as_meant() -> None:
    welcome = replace(WELCOME, key="", new_key=False)
    assert "API key       <your API key>\n" in welcome.text()
    assert "Authorization: Bearer <your API key>" in shlex.split(welcome.curl())
    assert "Bearer <your API key>" in welcome.snippet()
    assert shlex.split(welcome.chat())[0] == "WEIR_API_KEY=<your API key>"


def test_the_console_is_one_url_and_one_paste() -> None:
    text = replace(WELCOME, admin_secret="the-secret").text()
    assert "console       http://127.0.0.1:8000/console/\n  sign in     the-secret   (" in text
    assert "console" not in WELCOME.text()
