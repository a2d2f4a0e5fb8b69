"""Policies by their name in the configuration."""

from collections.abc import Callable, Mapping

from weir_scheduler.policies.fifo.fifo import Fifo
from weir_scheduler.policies.ordering import OrderingPolicy
from weir_scheduler.policies.priority.priority import Priority
from weir_scheduler.policies.shortest_remaining.shortest_remaining import ShortestRemaining
from weir_scheduler.rules.ordering_parameters import OrderingParameters

POLICIES: Mapping[str, Callable[[OrderingParameters], OrderingPolicy]] = {
    "fifo": Fifo,
    "priority": Priority,
    "shortest_remaining": ShortestRemaining,
}
"""Every policy; a new one is added here and is then held to the conformance suite."""

_DEFAULTS = OrderingParameters()


def policy_named(name: str, parameters: OrderingParameters = _DEFAULTS) -> OrderingPolicy:
    """A fresh policy. Raises KeyError for a name that is not in `POLICIES`."""
    return POLICIES[name](parameters)
