"""`weir models`, in this process."""

import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.tiny_llama import write_tiny_gguf, write_tiny_llama
from weir_cli.app import app
from weir_cli.errors import CommandError
from weir_worker.engine.null_folder import ensure_null_model


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TOKENWEIR_HOME", str(tmp_path / "home"))
    return tmp_path / "home" / "models"


def weir(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["models", *arguments])
    if isinstance(result.exception, CommandError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


def told(*arguments: str) -> Any:
    return json.loads(weir(*arguments, "-o", "json"))


def test_an_empty_cache_says_what_to_do(home: Path) -> None:
    assert weir("ls") == f"no models in {home}; `weir models pull` brings one\n"
    assert told("ls") == []


@pytest.mark.timeout(240)
def test_files_and_folders_are_brought_listed_and_removed(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Where a command is run is no place to import from.
    (tmp_path / "tokenizers.py").write_text("raise RuntimeError('imported from the work folder')")
    monkeypatch.chdir(tmp_path)
    file = write_tiny_gguf(tmp_path / "from file.gguf")
    folder = write_tiny_llama(tmp_path / "from_folder")
    (folder / "pytorch_model.bin").write_bytes(b"code")
    assert weir("pull", str(file)).strip() == str(home / "from-file")
    assert weir("pull", str(folder), "--name", "mine").strip() == str(home / "mine")
    assert not (home / "mine" / "pytorch_model.bin").exists()
    (home / "broken").mkdir()
    text = weir("ls")
    assert text.splitlines()[0].split()[:3] == ["NAME", "ARCHITECTURE", "PARAMETERS"]
    assert "broken: " in text
    assert "config.json: the file is missing" in text
    rows = {row["name"]: row for row in told("ls")}
    assert rows["mine"]["parameters"] == rows["from-file"]["parameters"] == 115_008
    assert (rows["mine"]["dtype"], rows["mine"]["context"]) == ("F32", 512)
    weir("rm", "from-file")
    with pytest.raises(CommandError, match="no model ''"):
        weir("rm", "")
    assert {row["name"] for row in told("ls")} == {"mine", "broken"}


def test_info_tells_what_capacity_needs(tmp_path: Path) -> None:
    folder = write_tiny_llama(tmp_path / "tiny", overrides={"model_type": "mistral"} | _WINDOW)
    found = told("info", str(folder), "--contexts", "3")
    assert (found["kv_bytes_per_token"], found["windows"]) == (512, {"100": 2})
    assert (found["eos_token_ids"], found["chat_template"]) == ([2], True)
    assert len(found["tokenizer_fingerprint"]) == 64
    memory = found["memory"]
    assert memory["weights_fp32_bytes"] == 4 * found["parameters"]
    assert memory["kv_fp32_bytes"] == {"3": 512 * 3 * 512}
    matrices = 115_008 - 320 * 64 - 5 * 64
    rows = 320 + 2 * (64 + 2 * 32 + 64 + 2 * 128 + 64)
    expected = 4 * (320 * 64 + 5 * 64) + matrices + 4 * rows
    assert memory["weights_int8_bytes"] == expected
    text = weir("info", str(folder))
    assert "2 layers see 100" in text
    assert "WITH INT8 WEIGHTS" in text


def test_info_of_the_model_that_computes_nothing(tmp_path: Path) -> None:
    folder = ensure_null_model(tmp_path / "null")
    found = told("info", str(folder))
    assert (found["architecture"], found["parameters"]) == ("weir_null", 0)
    assert found["context"] == 131_072
    assert "weir_null" in weir("info", str(folder))


_WINDOW = {"sliding_window": 100}


def test_info_of_a_file_needs_no_conversion(tmp_path: Path, home: Path) -> None:
    found = told("info", str(write_tiny_gguf(tmp_path / "tiny.gguf")))
    assert (found["architecture"], found["stored_as"]) == ("llama", ["F32"])
    assert (found["parameters"], found["context"]) == (115_008, 512)
    assert not home.exists()


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("info", "nothing"), "nothing: no folder, no GGUF file, and no model of that name in "),
        (("info", "{adapter}"), "adapter_config.json: this is an adapter (LoRA), which is not"),
        (("info", "{pickle}"), "pytorch_model.bin: weights in a pickle can run any code"),
        (("info", "{text}"), "text.gguf: not a GGUF file: it does not begin with GGUF"),
        (("pull", "nothing"), "no GGUF file, no folder, and none of smollm2-135m-instruct, gemma"),
        (("pull", "{pickle}"), "weights in a pickle can run any code, and are not read"),
        (("rm", "../home"), "no model '../home' in "),
        (("rm", "nothing"), "no model 'nothing' in "),
    ],
)
@pytest.mark.timeout(240)
def test_what_cannot_be_served_is_told_in_one_line(
    tmp_path: Path, arguments: tuple[str, ...], problem: str
) -> None:
    adapter = write_tiny_llama(tmp_path / "adapter")
    (adapter / "adapter_config.json").write_text("{}")
    pickle = write_tiny_llama(tmp_path / "pickle")
    (pickle / "model.safetensors").rename(pickle / "pytorch_model.bin")
    text = tmp_path / "text.gguf"
    text.write_text("hello")
    places = {"adapter": adapter, "pickle": pickle, "text": text}
    with pytest.raises(CommandError) as refused:
        weir(*(argument.format(**places) for argument in arguments))
    assert problem in str(refused.value)
    assert "\n" not in str(refused.value)


def test_info_takes_the_alias_that_calls_use(home: Path) -> None:
    write_tiny_llama(home / "smollm2-135m-instruct")
    assert told("info", "smollm2") == told("info", "smollm2-135m-instruct")


def test_the_version_is_an_option_too() -> None:
    told_by = [CliRunner().invoke(app, [how]).stdout for how in ("--version", "version")]
    assert told_by[0] == told_by[1] == f"tokenweir {version('tokenweir')}\n"
