"""Memory of this machine and of processes, where the kernel tells (Linux)."""

from pathlib import Path

_PROC = Path("/proc")
_CGROUP = Path("/sys/fs/cgroup")
_KIB = 1024


def available_bytes() -> int | None:
    """What can still be used, within the limit of the control group; None: unknown."""
    machine = _field(_PROC / "meminfo", "MemAvailable:")
    group = _group_left()
    known = [value for value in (machine, group) if value is not None]
    return min(known) if known else None


def used_bytes(pid: int) -> int | None:
    """Of a process and all that it started, shared pages by their share; None: unknown."""
    parts = [_own_bytes(one) for one in (pid, *_descendants(pid))]
    known = [part for part in parts if part is not None]
    return sum(known) if known else None


def _own_bytes(pid: int) -> int | None:
    return _field(_PROC / str(pid) / "smaps_rollup", "Pss:")


def _field(file: Path, name: str) -> int | None:
    """A number of KiB after its name, as bytes."""
    try:
        for line in file.read_text(encoding="ascii", errors="replace").splitlines():
            if line.startswith(name):
                return int(line.split()[1]) * _KIB
    except (OSError, ValueError, IndexError):
        return None
    return None


def _group_left() -> int | None:
    try:
        limit = (_CGROUP / "memory.max").read_text(encoding="ascii").strip()
        used = int((_CGROUP / "memory.current").read_text(encoding="ascii"))
        cached = _stat("inactive_file")
        return None if limit == "max" else max(0, int(limit) - used + cached)
    except (OSError, ValueError):
        return None


def _stat(name: str) -> int:
    """Page cache counts as used, and is given up first."""
    for line in (_CGROUP / "memory.stat").read_text(encoding="ascii").splitlines():
        if line.startswith(f"{name} "):
            return int(line.split()[1])
    return 0


def _descendants(pid: int) -> list[int]:
    found, parents = [], [pid]
    while parents:
        children = [child for parent in parents for child in _children(parent)]
        found += children
        parents = children
    return found


def _children(pid: int) -> list[int]:
    """By its threads: each knows those that it started."""
    try:
        files = list((_PROC / str(pid) / "task").glob("*/children"))
        return [int(word) for file in files for word in file.read_text().split()]
    except (OSError, ValueError):
        return []
