"""Where the ledger lies."""

import os
from pathlib import Path

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from weir_core.errors.startup import StartupError

_DRIVERS = {
    "sqlite": "sqlite+aiosqlite",
    "sqlite+aiosqlite": "sqlite+aiosqlite",
    "postgres": "postgresql+asyncpg",
    "postgresql": "postgresql+asyncpg",
    "postgresql+asyncpg": "postgresql+asyncpg",
}


def default_url(journal: str) -> str:
    """The ledger of a journal: a SQLite file beside its folder."""
    return f"sqlite+aiosqlite:///{Path(journal).absolute()}.ledger.sqlite"


def parse_url(given: str, knob: str = "ledger_url") -> URL:
    """Check a URL and choose the driver.

    Raises:
        StartupError: it is none, or of a database that is not supported. The URL is not quoted:
            it may hold a password.
    """
    try:
        url = make_url(given)
    except ArgumentError:
        raise StartupError(f"{knob} is no URL; {_BOUND}") from None
    driver = _DRIVERS.get(url.drivername)
    if driver is None:
        raise StartupError(f"{knob} is of the kind {url.drivername!r}; {_BOUND}")
    if not url.database or url.database == ":memory:":
        raise StartupError(f"{knob} names no database; {_BOUND}")
    return url.set(drivername=driver)


def make_private_file(url: URL) -> None:
    """Make the file of a SQLite ledger, for its owner alone, with its folder.

    Raises:
        StartupError: it cannot be made.
    """
    path = Path(str(url.database))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    except OSError as error:
        raise StartupError(
            f"the ledger {path} cannot be written: {error.strerror}; change ledger_url"
        ) from None


_BOUND = (
    "it must be sqlite:////path/to/file or postgresql://user:password@host:port/database "
    "(set --ledger-url or WEIR_RATELIMITER__LEDGER_URL)"
)
