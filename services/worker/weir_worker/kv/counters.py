"""Raw counters behind the cache's hit rates."""

from dataclasses import dataclass


@dataclass(slots=True)
class CacheCounters:
    """Totals since start; queries and hits are tokens in blocks that could have been found.

    Attributes:
        prefix_queries, prefix_hits: in the tenant's namespace.
        session_queries, session_hits: in the namespace of a session.
        evictions: findable blocks that were reused.
    """

    prefix_queries: int = 0
    prefix_hits: int = 0
    session_queries: int = 0
    session_hits: int = 0
    evictions: int = 0
