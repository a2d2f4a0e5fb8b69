"""`weir simulate` from end to end, without any data but the samples of this repository."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from tests.sim.samples import BY_FORMAT
from weir_cli.app import app
from weir_cli.errors import CommandError
from weir_cli.simulation_cost import cost_model
from weir_cli.simulation_setup import variants
from weir_sim.generator.presets import PRESETS

_SMALL = ("--limit", "15", "--workers", "2")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["simulate", *arguments], catch_exceptions=False)


def numbers(*arguments: str) -> list[dict[str, Any]]:
    runs: list[dict[str, Any]] = json.loads(run(*arguments, "-o", "json").stdout)["runs"]
    return runs


def refusal(*arguments: str) -> str:
    with pytest.raises(CommandError) as raised:
        run(*arguments)
    return str(raised.value)


def test_a_generated_load_is_run_compared_and_shown_by_tenant() -> None:
    shown = run(*_SMALL, "--compare", "shared,weighted/shortest_remaining").stdout
    for way in ("weighted/fifo", "shared/fifo", "weighted/shortest_remaining"):
        assert f"\n{way}" in f"\n{shown}"
    assert "max gap of two that wait" in shown
    assert "tenant  weight  requests  refused  ttft p50" in shown


def test_the_same_seed_gives_the_same_numbers_and_another_others() -> None:
    once = numbers(*_SMALL, "--seed", "7")
    again = numbers(*_SMALL, "--seed", "7")
    other = numbers(*_SMALL, "--seed", "8")
    assert once == again
    assert once != other


@pytest.mark.parametrize("name", BY_FORMAT)
def test_a_file_of_each_format_runs(name: str) -> None:
    (result,) = numbers("--trace", str(BY_FORMAT[name]), "--rate", "2", "--limit", "4")
    assert result["total"]["completed"] == result["total"]["requests"] > 0


@pytest.mark.parametrize("name", [name for name in PRESETS if name != "arena"])
def test_every_preset_runs(name: str) -> None:
    (result,) = numbers(
        *("--trace", name, "--limit", "6", "--kv-blocks", "20000", "--cost-model", "h100")
    )
    assert result["total"]["completed"] == 6


def test_weights_tenants_and_classes_are_taken_over() -> None:
    (result,) = numbers(
        *("--trace", "azure-conv", "--limit", "20", "--tenants", "round-robin:2"),
        *("--weights", "t1=3", "--batch", "t0"),
    )
    assert {one["tenant"]: one["weight"] for one in result["tenants"]} == {"t0": 1, "t1": 3}
    assert [one["requests"] for one in result["tenants"]] == [10, 10]


def test_weights_show_while_tenants_wait_though_all_drains_and_an_overload_is_told() -> None:
    load = ("--trace", "azure-conv", "--limit", "60", "--rate", "20", "--workers", "1")
    two = ("--tenants", "round-robin:2", "--weights", "t1=3")
    (result,) = numbers(*load, *two)
    by_name = {one["tenant"]: one for one in result["tenants"]}
    assert by_name["t1"]["contended"]["got"] == pytest.approx(0.75, abs=0.05)
    assert by_name["t1"]["contended"]["due"] == pytest.approx(0.75)
    assert by_name["t1"]["share_of_all"] < 0.6
    assert result["offered_load"] > 2
    shown = run(*load, *two).stdout
    assert "x capacity; the queue grows" in shown
    assert "offered load: below capacity" in run(*_SMALL).stdout


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_plots_and_numbers_are_written(tmp_path: Path, suffix: str) -> None:
    out = tmp_path / "out"
    run(*_SMALL, "--compare", "shared", "--plot", suffix, "--out", str(out))
    names = {"service", "first-token", "queue", "workers"}
    assert {path.name for path in out.iterdir()} == {
        "numbers.json",
        *(f"{name}.{suffix}" for name in names),
    }
    assert len(json.loads((out / "numbers.json").read_text())["runs"]) == 2
    begin = {"png": b"\x89PNG", "svg": b"<?xml"}[suffix]
    assert all((out / f"{name}.{suffix}").read_bytes().startswith(begin) for name in names)


def test_what_cannot_be_run_is_told_with_option_value_and_what_there_is() -> None:
    assert "no file nowhere.csv, and no preset; presets: azure-conv" in refusal(
        "--trace", "nowhere.csv"
    )
    assert "--compare has 'lifo'; known are shared, weighted" in refusal("--compare", "lifo")
    assert "--weights has 't1'" in refusal("--weights", "t1")
    assert "--weights names t99; the load's tenants are t0, t1" in refusal(
        *("--limit", "15", "--tenants", "round-robin:2", "--weights", "t99=3")
    )
    assert "--cost-model is 'abacus'; it must be one of a10g" in refusal("--cost-model", "abacus")
    assert "--plot needs --out" in refusal("--plot", "png")
    assert "--tenants is 'hash'" in refusal("--tenants", "hash")
    assert "give --rate" in refusal("--trace", str(BY_FORMAT["vidur"]))
    taken = refusal(*_SMALL, "--out", str(BY_FORMAT["azure"]))
    assert "cannot be written" in taken


def test_ways_are_named_whole_or_by_one_part() -> None:
    named = [one.name for one in variants("weighted", "fifo", "shared, priority,locality/fifo")]
    assert named == ["weighted/fifo", "shared/fifo", "weighted/priority", "locality/fifo"]
    with pytest.raises(CommandError, match="makes 5 runs; at most 4"):
        variants("weighted", "fifo", "shared,locality,priority,shared/priority")


def test_a_cost_model_of_ones_own_is_five_numbers() -> None:
    assert cost_model("linear:10,0.5,0,1,0").step_s(100, 5_000, 2, 300) == pytest.approx(0.062)
    for numbers in ("1,2", "0,1,1,1,1", "1,-1,0,0,0", "1,nan,0,0,0", "1e308,0,0,0,0"):
        with pytest.raises(CommandError, match="five numbers of milliseconds"):
            cost_model(f"linear:{numbers}")
    with pytest.raises(CommandError, match="No such file"):
        cost_model("/nowhere.csv:llama2-70b:h100-80gb:8")
