"""Where the ledger lies."""

from pathlib import Path

from sqlalchemy import URL

from weir_core.database.url import parse_database_url


def default_url(journal: str) -> str:
    """The ledger of a journal: a SQLite file beside its folder."""
    return f"sqlite+aiosqlite:///{Path(journal).absolute()}.ledger.sqlite"


def parse_url(given: str, knob: str = "ledger_url") -> URL:
    """Check a URL and choose the driver.

    Raises:
        StartupError: see `parse_database_url`.
    """
    return parse_database_url(given, knob, "--ledger-url or WEIR_RATELIMITER__LEDGER_URL")
