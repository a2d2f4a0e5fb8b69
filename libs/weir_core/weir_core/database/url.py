"""URLs of databases: SQLite by default, PostgreSQL by choice."""

from collections.abc import Mapping

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
_MOST_PORT = 65_535

# What may follow the question mark, and its values; none: any.
_OPTIONS: Mapping[str, Mapping[str, frozenset[str]]] = {
    "sqlite": {},
    "postgresql": {
        "host": frozenset(),
        "ssl": frozenset({"disable", "allow", "prefer", "require", "verify-ca", "verify-full"}),
        "prepared_statement_cache_size": frozenset({"0"}),
    },
}


def parse_database_url(given: str, knob: str, how: str) -> URL:
    """Checks a URL and chooses the driver.

    Args:
        given: the URL.
        knob: the setting that it comes from.
        how: how people set it, such as `--ledger-url or WEIR_RATELIMITER__LEDGER_URL`.

    Raises:
        StartupError: it is none, or of a database that is not supported. The URL is not quoted:
            it may hold a password.
    """
    bound = f"{_BOUND} (set {how})"
    try:
        url = make_url(given)
    except (ArgumentError, ValueError):
        raise StartupError(f"{knob} is no URL; {bound}") from None
    driver = _DRIVERS.get(url.drivername)
    if driver is None:
        raise StartupError(f"{knob} is of the kind {url.drivername!r}; {bound}")
    if not url.database or url.database == ":memory:":
        raise StartupError(f"{knob} names no database; {bound}")
    if url.port is not None and not 0 < url.port <= _MOST_PORT:
        raise StartupError(f"{knob} names port {url.port}; {bound}, with a port of 1 to 65535")
    _check_options(url, knob, bound)
    return url.set(drivername=driver)


def _check_options(url: URL, knob: str, bound: str) -> None:
    allowed = _OPTIONS[_DRIVERS[url.drivername].partition("+")[0]]
    for name, value in url.query.items():
        if name not in allowed:
            raise StartupError(
                f"{knob} has the option {name!r}; allowed: {', '.join(allowed) or 'none'}; {bound}"
            )
        if allowed[name] and value not in allowed[name]:
            raise StartupError(
                f"{knob} has a bad {name}; it must be one of {', '.join(sorted(allowed[name]))}"
            )


_BOUND = "it must be sqlite:////path/to/file or postgresql://user:password@host:port/database"
