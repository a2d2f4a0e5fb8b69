"""Which instructions the kernels are compiled for."""

import ctypes
import platform
from collections.abc import Set
from pathlib import Path
from typing import Literal

Level = Literal["avx2", "avx512", "amx"]

_BASE = ("-mavx2", "-mfma", "-mf16c")
_WIDE = ("-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl", "-mavx512vnni")
COMPILER_FLAGS: dict[Level, tuple[str, ...]] = {
    "avx2": _BASE,
    "avx512": (*_BASE, *_WIDE, "-mprefer-vector-width=512"),
    "amx": (*_BASE, *_WIDE, "-mprefer-vector-width=512", "-mamx-tile", "-mamx-int8"),
}
_CPU_FLAGS: dict[Level, frozenset[str]] = {
    "avx2": frozenset({"avx2", "fma", "f16c"}),
    "avx512": frozenset({"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512_vnni"}),
    "amx": frozenset({"amx_tile", "amx_int8"}),
}


def levels(cpu_flags: Set[str]) -> list[Level]:
    """Those whose instructions, and those of the levels below, are all there; widest first."""
    found: list[Level] = []
    for level, needed in _CPU_FLAGS.items():
        if not needed <= cpu_flags:
            break
        found.insert(0, level)
    return found


def cpu_flags(cpuinfo: Path = Path("/proc/cpuinfo")) -> frozenset[str]:
    """The processor's features as Linux on x86-64 names them; none elsewhere.

    Without those of AMX where the system does not let this process use its registers.
    """
    if platform.machine() != "x86_64":
        return frozenset()
    try:
        lines = cpuinfo.read_text().splitlines()
    except OSError:
        return frozenset()
    flags = (line.partition(":")[2].split() for line in lines if line.startswith("flags"))
    found = frozenset(next(flags, ()))
    return found - _CPU_FLAGS["amx"] if "amx_tile" in found and not _tiles_granted() else found


def _tiles_granted() -> bool:
    """Ask Linux (5.16 or newer) for the tile registers, for the whole process."""
    arch_prctl, request_permission, tile_data = 158, 0x1023, 18
    try:
        denied: int = ctypes.CDLL(None).syscall(arch_prctl, request_permission, tile_data)
    except (OSError, AttributeError):
        return False
    return denied == 0
