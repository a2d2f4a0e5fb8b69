"""Who has the processors: this program and what it has started, or others."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_SHORTEST_S = 1.0
"""The kernel counts in hundredths of a second; of a shorter time nothing is said."""


@dataclass(frozen=True, slots=True)
class ProcessorTimes:
    """Seconds since the start of the machine, summed over the processors that we may use.

    Attributes:
        passed: idle ones too.
        busy: of any process, of the kernel, and what a hypervisor gave to others.
        ours: of this process and its descendants, those that have ended included.
    """

    passed: float
    busy: float
    ours: float


def processor_times(proc: Path = Path("/proc")) -> ProcessorTimes | None:
    """A reading of now; None where the system does not tell."""
    try:
        lines = (proc / "stat").read_text().splitlines()
        tick_s = 1 / os.sysconf("SC_CLK_TCK")
        mine = {f"cpu{number}" for number in os.sched_getaffinity(0)}
    except (OSError, ValueError, AttributeError):
        return None
    rows = [list(map(int, rest)) for name, *rest in map(str.split, lines) if name in mine]
    if not rows:
        return None
    # user, nice, system, idle, iowait, irq, softirq, steal; what follows is in these already.
    busy = sum(sum(row[:3]) + sum(row[5:8]) for row in rows)
    passed = sum(sum(row[:8]) for row in rows)
    return ProcessorTimes(passed * tick_s, busy * tick_s, _ours(proc) * tick_s)


def others_share(begin: ProcessorTimes | None, end: ProcessorTimes | None) -> float | None:
    """Share of the processors that others had between two readings; None where unknown."""
    if begin is None or end is None:
        return None
    passed = end.passed - begin.passed
    if passed < _SHORTEST_S * len(os.sched_getaffinity(0)):
        return None
    theirs = (end.busy - begin.busy) - (end.ours - begin.ours)
    return min(1.0, max(0.0, theirs / passed))


def _ours(proc: Path) -> int:
    """Ticks of this process and of those below it."""
    found = _processes(proc)
    mine = {os.getpid()}
    grown = True
    while grown:
        below = {pid for pid, (parent, _) in found.items() if parent in mine} - mine
        mine |= below
        grown = bool(below)
    return sum(found[pid][1] for pid in mine if pid in found)


def _processes(proc: Path) -> Mapping[int, tuple[int, int]]:
    """Parent and ticks of every process, its ended children included."""
    found = {}
    for entry in proc.iterdir():
        if not entry.name.isdigit():
            continue
        try:
            text = (entry / "stat").read_text()
        except OSError:
            continue
        fields = text[text.rindex(")") + 2 :].split()
        found[int(entry.name)] = (int(fields[1]), sum(map(int, fields[11:15])))
    return found
