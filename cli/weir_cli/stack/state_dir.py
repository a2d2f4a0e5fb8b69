"""The folder of one run: secret, configuration, logs and the ratelimiter's journal."""

import fcntl
import os
import secrets
import shutil
import time
from pathlib import Path

from weir_cli.errors import CommandError
from weir_cli.stack.whereabouts import announce, announced, withdraw
from weir_core.model_folder import models_home

_KEPT_RUNS = 10
_LOCK_FILE = "lock"
_SECRET_FILE = "cluster_secret"
ADMIN_SECRET_FILE = "admin_secret"


class StateDir:
    """A folder that one supervisor at a time works in.

    Attributes:
        path: the folder; readable by its owner alone.
        logs: the folder of the services' logs.
    """

    def __init__(self, path: Path) -> None:
        """Makes or takes over the folder.

        Raises CommandError when it cannot be written or a living supervisor has it.
        """
        self.path = path.absolute()
        self.logs = self.path / "logs"
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.logs.mkdir(exist_ok=True)
            self._lock: int | None = _locked(self.path)
        except OSError as error:
            raise CommandError(
                f"cannot write {error.filename or path}: {error.strerror}; "
                "choose another --state-dir"
            ) from None
        if self._lock is None:
            raise CommandError(f"{path} is in use by another `weir up`; choose another --state-dir")
        announce(self.path)

    def cluster_secret(self) -> str:
        """The secret that the services share; made on the first call, kept for the next run."""
        return self._secret(_SECRET_FILE)

    def admin_secret(self) -> str:
        """The administrator's; likewise."""
        return self._secret(ADMIN_SECRET_FILE)

    def _secret(self, name: str) -> str:
        file = self.path / name
        if not file.exists():
            self.write_private(name, secrets.token_urlsafe(32))
        return file.read_text(encoding="utf-8").strip()

    def write_private(self, name: str, text: str) -> Path:
        """Writes a file that only its owner can read."""
        path = self.path / name
        path.unlink(missing_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def release(self) -> None:
        """Lets another supervisor have the folder; the kernel does so too when this one dies."""
        if self._lock is not None:
            withdraw(self.path)
            os.close(self._lock)
            self._lock = None


def runs_home() -> Path:
    """The folder of the runs that were given no folder: `$TOKENWEIR_HOME/run`."""
    return models_home().parent / "run"


def running_folders() -> list[Path]:
    """Every folder that a supervisor of this user works in."""
    home = runs_home()
    runs = [path.absolute() for path in home.iterdir() if path.is_dir()] if home.is_dir() else []
    return [folder for folder in sorted({*runs, *announced()}) if _is_running(folder)]


def _is_running(folder: Path) -> bool:
    """Whether a supervisor works in a folder."""
    try:
        descriptor = _locked(folder)
    except OSError:
        return False
    if descriptor is not None:
        os.close(descriptor)
    return descriptor is None


def new_run_folder() -> Path:
    """A name for a new run, after all but the last few runs that have ended are removed."""
    home = runs_home()
    runs = sorted(path for path in home.iterdir() if path.is_dir()) if home.is_dir() else []
    for old in runs[: -(_KEPT_RUNS - 1)]:
        _remove_if_ended(old)
    return home / f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"


def _locked(folder: Path) -> int | None:
    """A descriptor that holds the folder's lock, or None when somebody else holds it."""
    descriptor = os.open(folder / _LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def _remove_if_ended(folder: Path) -> None:
    try:
        descriptor = _locked(folder)
    except OSError:
        return
    if descriptor is not None:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(descriptor)
