import os
import stat
import time
from pathlib import Path

import pytest

from weir_cli.errors import CommandError
from weir_cli.stack.state_dir import StateDir, new_run_folder, runs_home


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TOKENWEIR_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def test_nobody_else_reads_it(tmp_path: Path) -> None:
    state = StateDir(tmp_path / "state")
    state.cluster_secret()
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in state.path.iterdir()}
    assert stat.S_IMODE(state.path.stat().st_mode) == 0o700
    assert modes["cluster_secret"] == 0o600
    state.release()


def test_the_secret_is_kept_for_the_next_run(tmp_path: Path) -> None:
    first = StateDir(tmp_path / "state")
    secret = first.cluster_secret()
    assert len(secret) >= 32
    first.release()
    second = StateDir(tmp_path / "state")
    assert second.cluster_secret() == secret
    second.release()


def test_one_supervisor_at_a_time(tmp_path: Path) -> None:
    first = StateDir(tmp_path / "state")
    with pytest.raises(CommandError, match=r"in use by another .* choose another --state-dir"):
        StateDir(tmp_path / "state")
    first.release()
    StateDir(tmp_path / "state").release()


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CommandError, match=r"cannot write .*; choose another --state-dir"):
        StateDir(tmp_path / "file" / "state")


def test_old_runs_are_removed_but_never_a_living_one() -> None:
    home = runs_home()
    living = StateDir(home / "20200101-000000-01")
    for number in range(2, 15):
        StateDir(home / f"20200101-000000-{number:02}").release()
    made = new_run_folder()
    assert made.name.endswith(f"-{os.getpid()}")
    assert made.name.startswith(time.strftime("%Y"))
    kept = sorted(path.name for path in home.iterdir())
    assert len(kept) == 10
    assert living.path.name in kept
    assert "20200101-000000-14" in kept
    living.release()
