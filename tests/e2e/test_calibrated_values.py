"""Values of a calibration, put into force on a stack that runs, and taken back."""

import asyncio
import os
from pathlib import Path

import pytest

from tests.cli.command import weir
from tests.e2e.deployment import Deployment
from weir_cli.calibration.directory_edit import write_whole
from weir_cli.calibration.running_site import open_running_site
from weir_cli.calibration.settings import ChosenSettings
from weir_cli.calibration.site import Caller, workers_of
from weir_cli.errors import CommandError
from weir_cli.stack.running import scheduler_door

pytestmark = pytest.mark.asyncio(loop_scope="session")

_CHOSEN = ChosenSettings({"max_batch_size": 7, "max_step_tokens": 96, "alpha": 0.8})


def _directory(stack: Deployment) -> Path:
    return stack.state.parent / f"{stack.state.name}-directory.yaml"


async def _sizes(stack: Deployment) -> set[int]:
    views = await workers_of(scheduler_door("", stack.state), stack.model)
    return {view.parameters.max_batch_size for view in views}


async def _until_sizes(stack: Deployment, wanted: set[int]) -> None:
    async with asyncio.timeout(30):
        while await _sizes(stack) != wanted:
            await asyncio.sleep(0.05)


async def test_a_stack_has_the_values_while_they_are_measured_and_its_own_afterwards(
    pair: Deployment, tmp_path: Path
) -> None:
    directory = _directory(pair)
    before, standing = directory.read_bytes(), await _sizes(pair)
    caller = Caller(pair.grpc_address, pair.secret("acme"), pair.model)
    door = scheduler_door("", pair.state)
    async with open_running_site(caller, door, directory, tmp_path) as site:
        await site.apply(_CHOSEN)
        assert await _sizes(pair) == {7}
        await site.apply(site.standing)
        assert await _sizes(pair) == standing
        await site.apply(_CHOSEN)
    assert directory.read_bytes() == before
    assert os.listdir(tmp_path) == []
    await _until_sizes(pair, standing)


async def test_what_a_killed_calibration_left_behind_is_put_back_by_the_next(
    pair: Deployment, tmp_path: Path
) -> None:
    directory = _directory(pair)
    before, standing = directory.read_bytes(), await _sizes(pair)
    write_whole(tmp_path / "directory.before", before)
    write_whole(directory, before.replace(b"tenants:", b"# left behind\ntenants:", 1))
    caller = Caller(pair.grpc_address, pair.secret("acme"), pair.model)
    async with open_running_site(caller, scheduler_door("", pair.state), directory, tmp_path):
        pass
    assert directory.read_bytes() == before
    await _until_sizes(pair, standing)


async def test_without_its_directory_nothing_of_a_stack_is_changed(
    pair: Deployment, tmp_path: Path
) -> None:
    caller = Caller(pair.grpc_address, pair.secret("acme"), pair.model)
    async with open_running_site(caller, scheduler_door("", pair.state), None, tmp_path) as site:
        assert not site.changeable
        with pytest.raises(CommandError, match="give --directory"):
            await site.apply(_CHOSEN)


async def test_a_stack_of_several_workers_is_not_measured(pair: Deployment, tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    ended = await asyncio.to_thread(
        weir, "calibrate", "--url", pair.grpc_address, "--key", pair.secret("acme"),
        "--served-model", pair.model, "--state-dir", str(pair.state), "--out", out,
    )  # fmt: skip
    assert ended.returncode == 1
    assert "2 workers serve the model" in ended.stderr
    assert "weir workers drain" in ended.stderr
