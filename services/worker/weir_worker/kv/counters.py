"""Raw counters behind the cache's hit rates."""

from dataclasses import dataclass


@dataclass(slots=True)
class CacheCounters:
    """Totals since start; queries and hits are tokens that could have been found.

    Attributes:
        prefix_queries, prefix_hits: in full blocks of the tenant's namespace.
        session_queries, session_hits: in a session, the last partial block included.
        restored: tokens of sessions that came back from the memory of the host.
        evictions: findable blocks that were given up: for reuse, or by age.
    """

    prefix_queries: int = 0
    prefix_hits: int = 0
    session_queries: int = 0
    session_hits: int = 0
    evictions: int = 0
    restored: int = 0
