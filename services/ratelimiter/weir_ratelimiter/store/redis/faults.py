"""What went wrong between this process and Redis, for callers and for operators."""

from redis import exceptions

from weir_core.errors import Reason, WeirError
from weir_ratelimiter.store.away import StoreAway

_WRONG_TYPE = "WRONGTYPE"

_CAUSES: tuple[tuple[type[Exception], str], ...] = (
    (exceptions.OutOfMemoryError, "it is out of memory; raise its maxmemory"),
    (exceptions.ReadOnlyError, "it is a replica that only reads; point `store` at the primary"),
    (exceptions.BusyLoadingError, "it is still loading its file"),
    (exceptions.MovedError, "its slots lie elsewhere; for a cluster `store` is redis+cluster://"),
    (exceptions.AskError, "its slots are being moved"),
    (exceptions.TryAgainError, "its slots are being moved"),
    (exceptions.ClusterDownError, "the cluster is down: not all slots are served"),
    (exceptions.MasterDownError, "its primary is down"),
    (exceptions.AuthenticationError, "it refuses the user or the password of `store`"),
    (exceptions.NoPermissionError, "its user may not run a command; see the page on Redis"),
    (exceptions.MaxConnectionsError, "all connections to it are in use"),
    (exceptions.TimeoutError, "no answer in time"),
    (TimeoutError, "no answer in time"),
    (exceptions.SlotNotCoveredError, "the cluster is down: not all slots are served"),
    (exceptions.ConnectionError, "no connection"),
    (exceptions.RedisClusterException, "no node of the cluster answers"),
    (OSError, "no connection"),
)

INDETERMINATE = (exceptions.TimeoutError, exceptions.ConnectionError, TimeoutError, OSError)
"""The call may or may not have been carried out."""


_CERTAIN = (
    exceptions.OutOfMemoryError,
    exceptions.ReadOnlyError,
    exceptions.BusyLoadingError,
    exceptions.ClusterDownError,
    exceptions.MasterDownError,
    exceptions.AuthenticationError,
    exceptions.NoPermissionError,
)
"""No other call would fare better."""


def unavailable(address: str, error: Exception) -> WeirError:
    """LIMITER_UNAVAILABLE with the cause; `address` is without credentials.

    A StoreAway, but for what is wrong with the keys of one tenant: the others' decisions can
    still be made.
    """
    if str(error).startswith(_WRONG_TYPE):
        return WeirError(
            Reason.LIMITER_UNAVAILABLE,
            f"Redis at {address} holds something of another type under a key of this account "
            "(WRONGTYPE); remove what does not belong there",
            retry_after_s=5.0,
        )
    return StoreAway(
        f"Redis at {address} cannot decide: {_cause(error)}", refused=_is_certain(error)
    )


def _is_certain(error: Exception) -> bool:
    """Whether asking again at once is useless: nobody listens, or somebody said no."""
    return isinstance(error.__context__, ConnectionRefusedError) or isinstance(error, _CERTAIN)


def _cause(error: Exception) -> str:
    for kind, text in _CAUSES:
        if isinstance(error, kind):
            return text
    # The first word is the server's code, such as MISCONF; the rest may name keys.
    code = str(error).split(" ", 1)[0][:32]
    return f"it answers {code or type(error).__name__}"
