"""How the settings say who is active."""

import secrets
import time
from pathlib import Path
from urllib.parse import unquote, urlsplit

from weir_core.errors.startup import StartupError
from weir_scheduler.leadership.file_lease_store import FileLeaseStore
from weir_scheduler.leadership.leadership import Leadership, LeasedLeadership, OnlyScheduler
from weir_scheduler.leadership.lease import Lease, LeaseTimes
from weir_scheduler.leadership.lease_store import LeaseStore

_SCHEMES = ("redis", "rediss", "unix")


def leadership_of(store: str, key: str, times: LeaseTimes, address: str) -> Leadership:
    """The one that `store` asks for; call it inside the event loop.

    Args:
        store: URL; empty for a scheduler that is the only one.
        key: of the lease in a Redis.
        times: of the lease.
        address: under which peers know this scheduler.

    Raises StartupError when the URL is none of those that are known.
    """
    if not store:
        return OnlyScheduler()
    holder = f"scheduler-{secrets.token_hex(6)}"
    lease = Lease(holder, address, times, lambda: time.time_ns() // 1_000_000)
    return LeasedLeadership(lease, _store(store, key, times.look_us / 1_000_000))


def _store(url: str, key: str, timeout_s: float) -> LeaseStore:
    parts = urlsplit(url)
    if parts.scheme in _SCHEMES:
        # Its library takes a third of a second to import, and most schedulers do without it.
        from weir_scheduler.leadership.redis_lease_store import RedisLeaseStore

        return RedisLeaseStore(url, key, timeout_s)
    if parts.scheme == "file" and not parts.netloc and parts.path:
        return FileLeaseStore(Path(unquote(parts.path)), timeout_s)
    # The URL may hold a password: only its scheme is told.
    raise StartupError(
        f"leader_store has the scheme {parts.scheme!r}; it must be redis://host:port/db, "
        "rediss://, unix:///path or file:///path (a cluster of Redis serves no lease: name one "
        "of its own)"
    )
