"""Which instructions the kernels are compiled for."""

import platform
from collections.abc import Set
from pathlib import Path
from typing import Literal

Level = Literal["avx2", "avx512", "amx"]

_BASE = ("-mavx2", "-mfma")
_WIDE = ("-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mavx512vnni")
COMPILER_FLAGS: dict[Level, tuple[str, ...]] = {
    "avx2": _BASE,
    "avx512": (*_BASE, *_WIDE, "-mprefer-vector-width=512"),
    "amx": (*_BASE, *_WIDE, "-mprefer-vector-width=512", "-mamx-tile", "-mamx-int8"),
}
_CPU_FLAGS: dict[Level, frozenset[str]] = {
    "avx2": frozenset({"avx2", "fma"}),
    "avx512": frozenset({"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512_vnni"}),
    "amx": frozenset({"amx_tile", "amx_int8"}),
}


def best_level(cpu_flags: Set[str]) -> Level | None:
    """The widest level whose instructions, and those of the levels below, are all there."""
    best: Level | None = None
    for level, needed in _CPU_FLAGS.items():
        if not needed <= cpu_flags:
            return best
        best = level
    return best


def cpu_flags(cpuinfo: Path = Path("/proc/cpuinfo")) -> frozenset[str]:
    """The processor's features as Linux on x86-64 names them; none elsewhere."""
    if platform.machine() != "x86_64":
        return frozenset()
    try:
        lines = cpuinfo.read_text().splitlines()
    except OSError:
        return frozenset()
    flags = (line.partition(":")[2].split() for line in lines if line.startswith("flags"))
    return frozenset(next(flags, ()))
