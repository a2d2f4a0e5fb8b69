"""The setting that names a store: a word or a URL, whose password is never shown."""

from urllib.parse import SplitResult, urlsplit

from weir_core.errors.startup import StartupError

MEMORY = "memory"
_SCHEMES = ("redis", "rediss", "redis+cluster")
_BOUND = "`memory`, redis://user:password@host:port/db or redis+cluster://host:port"


def check_address(value: str) -> str:
    """Return a store's address if it can be one.

    Raises:
        StartupError: one line with the setting, its value without credentials, and the bound.
    """
    if value != MEMORY and not _is_url(value):
        raise StartupError(
            f"store is {shown(value)}; it must be {_BOUND} (set --store or WEIR_RATELIMITER__STORE)"
        )
    return value


def shown(value: str) -> str:
    """An address as logs may show it: scheme, host and port, and no more."""
    if "://" not in value and "@" not in value:
        return value[:40]
    try:
        parts = urlsplit(value)
        host = parts.netloc.rpartition("@")[2] if _has_port(parts) else "..."
    except ValueError:
        return "..."
    return f"{parts.scheme}://{host}"


def _is_url(value: str) -> bool:
    try:
        parts = urlsplit(value)
    except ValueError:
        return False
    database = parts.path.strip("/")
    known = parts.scheme in _SCHEMES and bool(parts.hostname) and _has_port(parts)
    return known and (not database or database.isdecimal())


def _has_port(parts: SplitResult) -> bool:
    """Whether what stands for the port is one: a password without its `@` would be none."""
    try:
        return parts.port is None or parts.port > 0
    except ValueError:
        return False
