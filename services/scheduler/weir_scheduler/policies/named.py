"""Policies by their name in the configuration."""

from collections.abc import Callable, Mapping

from weir_scheduler.policies.fifo import Fifo
from weir_scheduler.policies.ordering import OrderingPolicy
from weir_scheduler.policies.priority import Priority
from weir_scheduler.policies.shortest_remaining import ShortestRemaining

POLICIES: Mapping[str, Callable[[], OrderingPolicy]] = {
    "fifo": Fifo,
    "priority": Priority,
    "shortest_remaining": ShortestRemaining,
}


def policy_named(name: str) -> OrderingPolicy:
    """A fresh policy. Raises KeyError for a name that is not in `POLICIES`."""
    return POLICIES[name]()
