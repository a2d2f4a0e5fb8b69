"""Whose the processors were."""

import os
from pathlib import Path

from weir_cli.calibration.processors import others_share, processor_times

_TICKS = os.sysconf("SC_CLK_TCK")


def _process(proc: Path, pid: int, parent: int, *ticks: int) -> None:
    folder = proc / str(pid)
    folder.mkdir(exist_ok=True)
    before = " ".join(["0"] * 9)
    times = " ".join(map(str, ticks))
    (folder / "stat").write_text(f"{pid} (a) b) S {parent} {before} {times} 0 0\n")


def _processors(proc: Path, user_s: float, idle_s: float, steal_s: float) -> None:
    values = [round(one * _TICKS) for one in (user_s, 0, 0, idle_s, 0, 0, 0, steal_s, 0, 0)]
    text = " ".join(map(str, values))
    rows = [f"cpu{number} {text}" for number in sorted(os.sched_getaffinity(0))]
    (proc / "stat").write_text("\n".join(["cpu 1 2 3", *rows, "cpu99999" + 8 * " 9", "ctxt 1"]))


def _share(proc: Path, *, ours_s: float, busy_s: float, steal_s: float) -> float | None:
    """Of ten seconds: a child had `ours_s`, another, which ended, a second of all processors."""
    count = len(os.sched_getaffinity(0))
    me, child, stranger = os.getpid(), 99_999_001, 99_999_002
    _processors(proc, 5, 5, 0)
    _process(proc, me, 1, 0, 0, 0, 0)
    _process(proc, child, me, 7, 0, 0, 0)
    _process(proc, stranger, 1, 0, 0, 0, 0)
    begin = processor_times(proc)
    _processors(proc, 5 + busy_s, 15 - busy_s - steal_s, steal_s)
    _process(proc, me, 1, 0, 0, count * _TICKS, 0)
    _process(proc, child, me, 7 + round(ours_s * count * _TICKS), 0, 0, 0)
    _process(proc, stranger, 1, 5_000, 0, 0, 0)
    return others_share(begin, processor_times(proc))


def test_what_the_stack_and_its_load_used_is_not_of_others(tmp_path: Path) -> None:
    share = _share(tmp_path, ours_s=8, busy_s=9, steal_s=0)
    assert share is not None
    assert share < 0.01


def test_other_processes_and_a_hypervisor_count(tmp_path: Path) -> None:
    share = _share(tmp_path, ours_s=3, busy_s=6, steal_s=2)
    assert share is not None
    assert abs(share - 0.4) < 0.01


def test_of_a_short_time_or_another_system_nothing_is_said(tmp_path: Path) -> None:
    now = processor_times()
    assert now is not None
    assert now.busy >= now.ours > 0
    assert others_share(now, now) is None
    assert processor_times(tmp_path) is None
    assert others_share(None, now) is None
