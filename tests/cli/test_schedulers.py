"""`weir up --schedulers`: one of them is active, and another takes over."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from tests.cli.running_stack import RunningStack
from tests.cli.test_up import ask
from weir_cli.stack.ports import PortClaims
from weir_cli.stack.running import scheduler_door
from weir_cli.stack.services import StackPlan, wanted_ports
from weir_cli.stack.state_dir import StateDir


def test_each_has_a_port_and_a_metrics_port() -> None:
    wanted = dict(wanted_ports(8000, 1, 3))
    names = ["scheduler", "scheduler-2", "scheduler-3"]
    assert [wanted[name] for name in names] == [8003, 8004, 8005]
    assert [wanted[f"{name} metrics"] for name in names] == [9003, 9004, 9005]


@pytest.mark.parametrize("count", [1, 2])
def test_several_share_a_lease_and_everybody_knows_all_of_them(tmp_path: Path, count: int) -> None:
    ports = PortClaims().choose(wanted_ports(0, 0, count))
    state = StateDir(tmp_path / "a state")
    StackPlan([], tmp_path / "d.yaml", ports, "", schedulers=count).specs(state)
    names = ["scheduler", "scheduler-2"][:count]
    settings = [yaml.safe_load((state.path / f"{name}.yaml").read_text()) for name in names]
    lease = f"file://{str(state.path.resolve()).replace(' ', '%20')}/leader"
    assert [one.get("leader_store") for one in settings] == [lease if count > 1 else None] * count
    gateway = yaml.safe_load((state.path / "gateway.yaml").read_text())
    addresses = ",".join(one["address"] for one in settings)
    assert gateway["scheduler_address"] == addresses
    assert scheduler_door("", state.path).address == addresses
    state.release()


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_when_the_active_one_is_killed_another_answers(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    with RunningStack(tmp_path, "--null", "--schedulers", "2") as stack:
        stack.wait_for("Serving until Ctrl-C", 120)
        for killed in range(1, 4):
            address = _active(folder)
            os.kill(_pid_at(stack, folder, address), signal.SIGKILL)
            assert list(ask(stack))[-1].finished.usage.completion_tokens == 5
            assert _active(folder) != address
            command = [
                sys.executable,
                "-m",
                "weir_cli",
                "workers",
                "ls",
                "--state-dir",
                str(folder),
            ]
            listed = subprocess.run(
                command, capture_output=True, text=True, timeout=60, check=True
            ).stdout
            assert "ready" in listed
            ends_at = time.monotonic() + 60
            while stack.output.count(" is back") < killed:
                assert time.monotonic() < ends_at, stack.output
                time.sleep(0.05)


def _active(folder: Path) -> str:
    """Address of the one that holds the lease."""
    return str(json.loads((folder / "leader").read_text())[2])


def _pid_at(stack: RunningStack, folder: Path, address: str) -> int:
    """Of the scheduler that listens there."""
    for pid, line in stack.children().items():
        if "-m weir_scheduler " in line:
            config = Path(line.split("--config ")[1].split()[0])
            if yaml.safe_load((folder / config.name).read_text())["address"] == address:
                return pid
    raise AssertionError(f"no scheduler listens on {address}")
