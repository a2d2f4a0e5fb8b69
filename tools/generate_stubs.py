"""Generates the gRPC stubs of protos/ into libs/weir_client/weir (what `make proto` runs)."""

import shutil
import sys
from pathlib import Path

import grpc_tools
from grpc_tools import protoc

ROOT = Path(__file__).resolve().parents[1]
PROTOS = ROOT / "protos"
TARGET = ROOT / "libs" / "weir_client"


def main() -> int:
    """Replaces the generated package; returns protoc's exit status."""
    sources = sorted(str(path.relative_to(PROTOS)) for path in PROTOS.rglob("*.proto"))
    shutil.rmtree(TARGET / "weir", ignore_errors=True)
    status: int = protoc.main(
        [
            "protoc",
            f"--proto_path={PROTOS}",
            f"--proto_path={Path(grpc_tools.__file__).parent / '_proto'}",
            f"--python_out={TARGET}",
            f"--grpc_python_out={TARGET}",
            f"--mypy_out={TARGET}",
            f"--mypy_grpc_out={TARGET}",
            *sources,
        ]
    )
    if status == 0:
        _mark_packages(TARGET / "weir")
    return status


def _mark_packages(package: Path) -> None:
    for folder in [package, *(path for path in package.rglob("*") if path.is_dir())]:
        (folder / "__init__.py").touch()
    (package / "py.typed").touch()


if __name__ == "__main__":
    sys.exit(main())
