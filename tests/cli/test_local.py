from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.tiny_llama import write_tiny_llama
from weir_cli.errors import CommandError
from weir_cli.stack import local
from weir_cli.stack.child import StartFailed
from weir_cli.stack.demo_directory import demo_directory
from weir_cli.stack.local import LocalStack, StackOptions
from weir_cli.stack.own_directory import own_versions, versions_without_worker
from weir_cli.stack.served_model import ServedModel
from weir_cli.stack.worker_plan import plan_workers
from weir_cli.stack.worker_range import WorkerRange
from weir_gateway.directory.file import parse_document
from weir_gateway.keys import generate_key

MODEL = ServedModel("small", ("s",), Path("/models/small"), 64, "/models/small")


class FailingSupervisor:
    """In the place of the supervisor: a service that does not start, for a reason."""

    reason = ""

    def __init__(self, *_: Any) -> None:
        return

    async def start(self) -> None:
        raise StartFailed(self.reason)

    async def stop(self) -> None:
        return


@pytest.mark.parametrize(
    ("reason", "line"),
    [
        (
            "scheduler did not start: cannot listen on h:1: Address already in use; change address "
            "(log: /l)",
            "scheduler did not start: cannot listen on h:1: Address already in use (log: /l); "
            "try again, or choose another --port",
        ),
        ("worker-1 did not start: no memory (log: /l)",) * 2,
    ],
)
async def test_a_port_that_was_taken_meanwhile_names_a_knob_of_weir_up(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, reason: str, line: str
) -> None:
    monkeypatch.setenv("TOKENWEIR_HOME", str(tmp_path))
    monkeypatch.setattr(FailingSupervisor, "reason", reason)
    monkeypatch.setattr(local, "Supervisor", FailingSupervisor)
    said: list[str] = []
    stack = LocalStack(StackOptions(port=0, null=True), said.append, said.append)
    try:
        with pytest.raises(CommandError) as caught:
            await stack.start()
    finally:
        await stack.stop()
    assert str(caught.value) == line


def test_the_demo_directory_is_valid_and_holds_the_parameters_of_the_model() -> None:
    recommended = {"temperature": 0.2, "top_p": 0.9}
    model = ServedModel("small", ("s",), Path("/m"), 64, "/m", recommended)
    text = demo_directory([model], generate_key("dev"))
    (entry,) = parse_document(text, "demo").models
    assert (entry.parameters.temperature, entry.parameters.top_p) == (0.2, 0.9)
    plain = yaml.safe_load(demo_directory([MODEL], generate_key("dev")))
    assert "parameters" not in plain["models"][0]


def test_a_version_with_a_weight_that_no_worker_will_have_is_named(tmp_path: Path) -> None:
    model = ServedModel("m", (), tmp_path, 4096, "null")
    content = yaml.safe_load(demo_directory([model], generate_key("dev")))
    content["models"][0]["versions"] += [
        {"version": "2", "folder": "/m-2", "weight": 10},
        {"version": "3", "folder": "/m-3", "weight": 0},
    ]
    file = tmp_path / "directory.yaml"
    file.write_text(yaml.safe_dump(content))
    [line] = versions_without_worker(file, ["m"], {})
    assert line.startswith("model 'm': version 2 has weight 10 and no worker here: ")
    assert "fall back" in line
    content["models"][0]["version_fallback"] = "none"
    file.write_text(yaml.safe_dump(content))
    [line] = versions_without_worker(file, ["m"], {})
    assert "NO_WORKER" in line


def test_a_model_of_the_file_that_no_worker_will_have_is_named(tmp_path: Path) -> None:
    served, other = (ServedModel(name, (), tmp_path, 4096, "null") for name in ("m", "other"))
    file = tmp_path / "directory.yaml"
    file.write_text(demo_directory([served, other], generate_key("dev")))
    warned: list[str] = []
    own_versions(file, [served], warned.append, several=True)
    [line] = warned
    assert line.startswith("model 'other' has no worker here: ")
    assert "--model" in line
    own_versions(file, [served, other], warned.append, several=True)
    assert len(warned) == 1


def test_every_version_with_a_weight_gets_workers(tmp_path: Path) -> None:
    """Version 1 is the model that was given; the others are where the directory says."""
    other = tmp_path / "other"
    write_tiny_llama(other)
    model = ServedModel("m", (), tmp_path, 4096, str(tmp_path))
    content = yaml.safe_load(demo_directory([model], generate_key("dev")))
    content["models"][0]["versions"] += [
        {"version": "2", "folder": str(other), "weight": 10},
        {"version": "3", "folder": "/m-3", "weight": 0},
    ]
    file = tmp_path / "directory.yaml"
    file.write_text(yaml.safe_dump(content))
    warned: list[str] = []
    versions = own_versions(file, [model], warned.append, several=True)
    plans = plan_workers([model], WorkerRange(2, 2), cores=8, versions=versions)
    started = [(plan.settings()["model_version"], plan.settings()["model"]) for plan in plans]
    assert started == [("1", str(tmp_path))] * 2 + [("2", str(other))] * 2
    assert [plan.name for plan in plans] == [f"worker-{n}" for n in range(1, 5)]
    assert not warned
    assert own_versions(file, [model], warned.append, several=False) is None
    assert "version 2 has weight 10 and no worker here" in warned[0]
    content["models"][0]["versions"][1]["folder"] = str(tmp_path / "gone")
    file.write_text(yaml.safe_dump(content))
    with pytest.raises(CommandError, match="version 2 of model 'm' cannot be served"):
        own_versions(file, [model], warned.append, several=True)
