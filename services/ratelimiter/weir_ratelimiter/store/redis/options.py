"""How a server is used."""

import msgspec


class RedisOptions(msgspec.Struct, frozen=True):
    """How a server is used.

    Attributes:
        timeout_s: of connecting and of each answer, seconds.
        remember_ms: how long the end of a reservation is remembered, milliseconds.
        most_events: how many events wait for the ledger before requests are refused.
        namespace: begins every key; all ratelimiters of a deployment have the same.
    """

    timeout_s: float = 0.1
    remember_ms: int = 24 * 3600 * 1000
    most_events: int = 100_000
    namespace: str = ""
