"""A store that is open."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from weir_core.repeating import Repeating
from weir_ratelimiter.store.base import Store


@dataclass(frozen=True, slots=True)
class OpenedStore:
    """A store, what to start once the limiter is there, and whether it works on a share."""

    store: Store
    tasks: Sequence[Repeating]
    degraded: Callable[[], bool] = lambda: False
