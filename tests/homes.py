"""Folders in the place of `~/.cache/tokenweir`."""

from pathlib import Path

from weir_worker.kernels.build import kernels_home

_KERNELS = kernels_home()


def new_home(folder: Path) -> Path:
    """A home, at first empty but for the kernels of this machine: each process that finds none
    compiles them, for ten seconds of a core."""
    folder.mkdir(parents=True, exist_ok=True)
    _KERNELS.mkdir(parents=True, exist_ok=True)
    kernels = folder / "kernels"
    if not kernels.is_symlink():
        kernels.symlink_to(_KERNELS, target_is_directory=True)
    return folder
