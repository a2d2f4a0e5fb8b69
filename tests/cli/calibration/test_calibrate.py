"""`weir calibrate` on a stack of its own that computes nothing: killed, gone on with, applied."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from tests.cli.command import weir
from tests.homes import new_home

_ARGUMENTS = (
    "calibrate", "--null", "--minutes", "0.1", "--concurrency", "1,2", "--input-len", "16,64",
    "--output-len", "4,12", "--goodput", "ttft:60000,itl:60000",
)  # fmt: skip
_BEFORE_KILL = 8


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


@pytest.mark.timeout(600)
def test_a_killed_calibration_goes_on_and_its_values_are_applied(tmp_path: Path) -> None:
    home = new_home(tmp_path / "home")
    out = tmp_path / "report"
    environment = {"TOKENWEIR_HOME": str(home), "WEIR_WORKER__NULL_STEP_US": "2000"}
    arguments = (*_ARGUMENTS, "--out", str(out))
    _run_and_kill(arguments, environment, out / "journal.jsonl", tmp_path / "output")
    kept = _lines(out / "journal.jsonl")[: 1 + _BEFORE_KILL]

    ended = weir(*arguments, "-o", "json", **environment)

    assert ended.returncode == 0, ended.stderr
    assert "going on after" in ended.stderr
    assert _lines(out / "journal.jsonl")[: 1 + _BEFORE_KILL] == kept
    names = [json.loads(line)["name"] for line in _lines(out / "journal.jsonl")[1:]]
    assert len(names) == len(set(names))
    numbers = json.loads(ended.stdout)
    _check_numbers(numbers, names)
    for name in ("summary.txt", "report.html", "goodput.svg", "agreement.json", "worker.yaml"):
        assert (out / name).stat().st_size > 0
    assert not (out / "stack").exists()
    (stored,) = home.glob("profiles/*/null/v0001.yaml")
    assert stored.read_bytes() == (out / "profile.yaml").read_bytes()
    _check_applied(tmp_path, out, numbers)


def _run_and_kill(
    arguments: tuple[str, ...], environment: dict[str, str], journal: Path, output: Path
) -> None:
    with output.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "weir_cli", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            env=os.environ | environment,
        )
    try:
        ends_at = time.monotonic() + 180
        while len(_lines(journal)) <= _BEFORE_KILL:
            assert process.poll() is None, f"it ended:\n{output.read_text()}"
            assert time.monotonic() < ends_at, f"too slow:\n{output.read_text()}"
            time.sleep(0.02)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


def _check_numbers(numbers: dict[str, object], names: list[str]) -> None:
    """Everything was measured, and what it came to says the same in all places."""
    assert {name.split()[0] for name in names} == {
        "prompt", "decode", "context", "answers", "grid", "default", "recommended", "held-out",
    }  # fmt: skip
    comparison = numbers["comparison"]
    assert isinstance(comparison, dict)
    assert len(comparison["default_goodput"]) == len(comparison["recommended_goodput"]) == 4
    assert min(comparison["default_goodput"]) > 0
    turns = [name for name in names if name.split()[0] in {"default", "recommended"}]
    assert turns == [
        "default 1", "recommended 1", "recommended 2", "default 2",
        "default 3", "recommended 3", "recommended 4", "default 4",
    ]  # fmt: skip
    first, second, third, fourth = comparison["rates"]
    assert first == fourth < second == third
    kept = numbers["kept"]
    recommended = {one["name"]: one["value"] for one in numbers["recommendation"]}  # type: ignore[attr-defined]
    assert isinstance(kept, dict)
    expected = 64 if numbers["verdict"] == "worse" else recommended["max_batch_size"]
    assert kept["max_batch_size"] == expected
    assert recommended["alpha"] == 1.0
    figures = numbers["figures"]
    assert isinstance(figures, dict)
    assert set(figures) == {"sim_error_p50", "sim_error_p95", "run_to_run_spread"}
    assert all(value >= 0 for value in figures.values())


def _check_applied(tmp_path: Path, out: Path, numbers: dict[str, object]) -> None:
    directory = tmp_path / "directory.yaml"
    directory.write_text(
        "models:\n"
        '  - {name: "null", versions: [{version: "1", folder: /models/m}], max_context: 8Ki}\n'
    )
    ended = weir("calibrate", "--out", str(out), "--apply", str(directory))
    assert ended.returncode == 0, ended.stderr
    (model,) = yaml.safe_load(directory.read_text())["models"]
    of_profile = model["parameters"]["profiles"][numbers["profile"]]
    kept = numbers["kept"]
    assert isinstance(kept, dict)
    assert of_profile["max_batch_size"] == kept["max_batch_size"]


def test_what_cannot_be_calibrated_is_refused_before_anything_starts(tmp_path: Path) -> None:
    out = ("--out", str(tmp_path / "out"))
    for arguments, told in (
        (("--concurrency", "4,2"), "--concurrency is '4,2'; it must rise"),
        (("--input-len", "64"), "--input-len is '64'; it must be SHORT,LONG"),
        (("--goodput", "fast:1"), "--goodput has 'fast:1'"),
        (("--apply", __file__, "--profile", __file__), "is no file of `weir calibrate`"),
    ):
        ended = weir("calibrate", *arguments, *out)
        assert ended.returncode == 1
        assert told in ended.stderr
