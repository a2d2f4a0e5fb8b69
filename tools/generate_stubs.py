"""Generates the gRPC stubs of protos/ into libs/weir_client/weir (what `make proto` runs).

`--out FOLDER` puts the package `weir` into that folder instead.
"""

import argparse
import os
import shutil
import sys
import tempfile
from pathlib import Path

import grpc_tools
from grpc_tools import protoc

ROOT = Path(__file__).resolve().parents[1]
PROTOS = ROOT / "protos"
TARGET = ROOT / "libs" / "weir_client"


def main() -> int:
    """Replaces the generated package; returns protoc's exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--out", type=Path, default=TARGET, help="folder to put `weir` into")
    target = parser.parse_args().out
    with tempfile.TemporaryDirectory(prefix="stubs.") as made:
        status = generate(Path(made))
        if status == 0:
            shutil.rmtree(target / "weir", ignore_errors=True)
            shutil.copytree(Path(made) / "weir", target / "weir")
    return status


def generate(folder: Path) -> int:
    """Writes the package `weir` into an empty folder; returns protoc's exit status."""
    # protoc finds its mypy plug-ins by name.
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    sources = sorted(str(path.relative_to(PROTOS)) for path in PROTOS.rglob("*.proto"))
    status: int = protoc.main(
        [
            "protoc",
            f"--proto_path={PROTOS}",
            f"--proto_path={Path(grpc_tools.__file__).parent / '_proto'}",
            f"--python_out={folder}",
            f"--grpc_python_out={folder}",
            f"--mypy_out={folder}",
            f"--mypy_grpc_out={folder}",
            *sources,
        ]
    )
    if status == 0:
        _mark_packages(folder / "weir")
    return status


def _mark_packages(package: Path) -> None:
    for folder in [package, *(path for path in package.rglob("*") if path.is_dir())]:
        (folder / "__init__.py").touch()
    (package / "py.typed").touch()


if __name__ == "__main__":
    sys.exit(main())
