import logging
import os
from pathlib import Path

import pytest

from weir_core.errors import WeirError
from weir_worker.kernels import __main__ as command
from weir_worker.kernels import build
from weir_worker.kernels.build import KernelsUnavailable
from weir_worker.kernels.choice import load_kernels
from weir_worker.kernels.library import Kernels
from weir_worker.kernels.processor import cpu_flags, levels

_AVX2 = {"avx2", "fma", "f16c"}
_AVX512 = _AVX2 | {"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512_vnni"}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TOKENWEIR_HOME", str(tmp_path))
    return tmp_path / "kernels"


def _compiler(monkeypatch: pytest.MonkeyPatch, folder: Path, script: str) -> None:
    path = folder / "compiler"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    monkeypatch.setenv("CXX", str(path))


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (set(), []),
        ({"avx2"}, []),
        (_AVX2, ["avx2"]),
        (_AVX2 | {"amx_tile", "amx_int8"}, ["avx2"]),
        (_AVX512, ["avx512", "avx2"]),
        (_AVX512 - {"fma"}, []),
        (_AVX512 | {"amx_tile", "amx_int8"}, ["amx", "avx512", "avx2"]),
    ],
)
def test_a_level_counts_when_it_is_there_as_a_whole(flags: set[str], expected: list[str]) -> None:
    assert levels(flags) == expected


def test_flags_are_read_from_the_first_processor(tmp_path: Path) -> None:
    path = tmp_path / "cpuinfo"
    path.write_text("processor : 0\nflags\t\t: fpu avx2 fma\n\nflags : other\n")
    assert cpu_flags(path) == {"fpu", "avx2", "fma"}
    assert cpu_flags(tmp_path / "missing") == frozenset()


@pytest.mark.timeout(400)
def test_a_library_is_compiled_once_and_loads(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if "avx2" not in cpu_flags():
        pytest.skip("kernels need AVX2")
    path = build.build("avx2", timeout_s=300)
    assert path.parent == home
    assert os.listdir(home) == [path.name]
    Kernels(path, "avx2")
    _compiler(monkeypatch, home, "exit 1")
    assert build.build("avx2", timeout_s=300) == path


def test_a_compiler_that_does_not_know_the_widest_level_makes_the_next(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _compiler(
        monkeypatch,
        tmp_path,
        'case "$*" in *-mamx*) echo "error: unrecognized option" >&2; exit 1;; esac\n'
        'while [ "$1" != -o ]; do shift; done; touch "$2"',
    )
    monkeypatch.setattr(build, "cpu_flags", lambda: _AVX512 | {"amx_tile", "amx_int8"})
    path, level = build.build_widest(timeout_s=20)
    assert level == "avx512"
    assert path.is_file()


def test_the_command_says_where_the_library_is_or_why_there_is_none(
    home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(build, "cpu_flags", lambda: _AVX2)
    _compiler(monkeypatch, tmp_path, 'while [ "$1" != -o ]; do shift; done; touch "$2"')
    assert command.main() == 0
    assert capsys.readouterr().out == f"{build.library_path('avx2')}\n"
    monkeypatch.setattr(build, "cpu_flags", frozenset)
    assert command.main() == 1
    assert "error: they need Linux on x86-64" in capsys.readouterr().err


def test_other_sources_are_another_library(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = build.library_path("avx2")
    assert before != build.library_path("avx512")
    (tmp_path / "one.cpp").write_text("int one;")
    monkeypatch.setattr(build, "SOURCES", tmp_path)
    assert build.library_path("avx2") != before


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("echo 'x.cpp:1: error: no such thing' >&2; exit 1", "failed (1): x.cpp:1: error: no such"),
        ("sleep 20", "took longer than 0.2 s"),
        ("exit 0", "No such file"),
    ],
)
def test_a_failing_compiler_is_told_and_leaves_nothing(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, message: str
) -> None:
    _compiler(monkeypatch, tmp_path, script)
    with pytest.raises(KernelsUnavailable) as error:
        build.build("avx2", timeout_s=0.2 if "sleep" in script else 20)
    assert message in str(error.value)
    assert os.listdir(home) == []


def test_without_a_compiler_torch_computes_unless_kernels_are_required(
    home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(build, "cpu_flags", lambda: frozenset(_AVX2))
    with caplog.at_level(logging.INFO):
        assert load_kernels("off") is None
        assert not caplog.records
        assert load_kernels("auto") is None
    assert [record.getMessage() for record in caplog.records] == [
        "computing without compiled kernels: there is no C++ compiler: install g++, or set CXX"
    ]
    with pytest.raises(WeirError, match="kernels are required and cannot be had: there is no C"):
        load_kernels("required")


def test_an_unknown_processor_has_no_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "cpu_flags", frozenset)
    assert load_kernels("auto") is None
    with pytest.raises(WeirError, match="Linux on x86-64 with AVX2, FMA and F16C"):
        load_kernels("required")


def test_a_damaged_library_is_told(tmp_path: Path) -> None:
    path = tmp_path / "broken.so"
    path.write_bytes(b"not a library")
    with pytest.raises(KernelsUnavailable, match="cannot be loaded"):
        Kernels(path, "avx2")
