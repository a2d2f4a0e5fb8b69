"""Compiles the kernels once for a kind of processor and keeps the library in the user's cache."""

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from weir_core.model_folder import models_home
from weir_worker.kernels.processor import COMPILER_FLAGS, Level, cpu_flags, levels

SOURCES = Path(__file__).parent / "csrc"
_FLAGS = ("-O3", "-std=c++17", "-fPIC", "-shared", "-fopenmp", "-fvisibility=hidden")


class KernelsUnavailable(Exception):
    """There are no kernels, and why."""


class CompilerFailed(KernelsUnavailable):
    """The compiler ran and made no library."""


def kernels_home() -> Path:
    """The folder of compiled kernels, beside that of the models."""
    return models_home().parent / "kernels"


def library_path(level: Level, home: Path | None = None) -> Path:
    """Where the library of these sources and flags lies, or will lie."""
    digest = hashlib.sha256(repr((_FLAGS, COMPILER_FLAGS[level])).encode())
    for source in _sources(".cpp") + _sources(".h"):
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    return (home or kernels_home()) / f"{level}-{digest.hexdigest()[:16]}.so"


def build(level: Level, *, timeout_s: float, home: Path | None = None) -> Path:
    """Compile the library unless it is there; a few seconds of one core.

    Processes that build at the same time each write a file of their own; the last one stays.

    Raises:
        KernelsUnavailable: no compiler, an error of it, or no end within the time.
    """
    path = library_path(level, home)
    if path.is_file():
        return path
    compiler = os.environ.get("CXX") or shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        raise KernelsUnavailable("there is no C++ compiler: install g++, or set CXX")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            target = Path(folder) / path.name
            _compile(compiler, level, target, timeout_s)
            target.replace(path)
    except OSError as error:
        raise KernelsUnavailable(f"{error}") from error
    return path


def build_widest(*, timeout_s: float, home: Path | None = None) -> tuple[Path, Level]:
    """The library for this processor: of the widest level that the compiler knows.

    Raises:
        KernelsUnavailable: the processor has no level, or what failed for the widest.
    """
    usable = levels(cpu_flags())
    if not usable:
        raise KernelsUnavailable("they need Linux on x86-64 with AVX2, FMA and F16C")
    try:
        return build(usable[0], timeout_s=timeout_s, home=home), usable[0]
    except CompilerFailed:
        if len(usable) == 1:
            raise
    # An old compiler does not know the newest instructions.
    return build(usable[1], timeout_s=timeout_s, home=home), usable[1]


def _compile(compiler: str, level: Level, target: Path, timeout_s: float) -> None:
    command = [compiler, *_FLAGS, *COMPILER_FLAGS[level], "-o", str(target)]
    command += map(str, _sources(".cpp"))
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=timeout_s, check=False
        )
    except subprocess.TimeoutExpired:
        raise KernelsUnavailable(f"{compiler} took longer than {timeout_s:g} s") from None
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if "error" in line] or ["no message"]
        raise CompilerFailed(f"{compiler} failed ({done.returncode}): {lines[0]}")


def _sources(suffix: str) -> list[Path]:
    return sorted(SOURCES.glob(f"*{suffix}"))
