"""Why blocks cannot be had now."""

from enum import Enum, auto


class Shortage(Enum):
    """What is exhausted.

    MEMORY: the cache; everyone waits. QUOTA: the tenant's own; only the tenant waits.
    """

    MEMORY = auto()
    QUOTA = auto()
