"""Where the `weir up`s of this user work, whatever their --state-dir: a pointer file for each."""

import contextlib
import hashlib
from pathlib import Path

from weir_core.model_folder import models_home


def announce(folder: Path) -> None:
    """Leave a pointer to a folder; without a home that can be written there is none."""
    with contextlib.suppress(OSError):
        pointer = _pointer(folder)
        pointer.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        for old in pointer.parent.iterdir():
            if not _target(old).is_dir():
                old.unlink(missing_ok=True)
        pointer.write_text(f"{folder}\n", encoding="utf-8")


def withdraw(folder: Path) -> None:
    """Take the pointer to a folder away."""
    with contextlib.suppress(OSError):
        _pointer(folder).unlink(missing_ok=True)


def announced() -> list[Path]:
    """Folders that are pointed to, by name; whoever worked there may have died since."""
    try:
        return sorted(_target(pointer) for pointer in _home().iterdir())
    except OSError:
        return []


def _home() -> Path:
    return models_home().parent / "running"


def _pointer(folder: Path) -> Path:
    return _home() / hashlib.sha256(str(folder).encode()).hexdigest()[:16]


def _target(pointer: Path) -> Path:
    return Path(pointer.read_text(encoding="utf-8").strip())
