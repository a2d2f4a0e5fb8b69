"""The longest cached prefix first, within what the policy leaves open."""

from collections.abc import Callable

from weir_scheduler.policies.ordering import OrderingPolicy, OrderKey
from weir_scheduler.policies.overtaking import Overtaking
from weir_scheduler.queues.entry import QueueEntry
from weir_scheduler.rules.ordering_parameters import OrderingParameters

_BOUNDS = Overtaking(promote_after_us=10_000_000, promote_every=4, max_overtaken=1_000)


class LongestPrefix:
    """A policy under which locality orders the requests of one band (`OrderingPolicy`).

    Args:
        policy: of the pool; its bands stay apart, its order decides between equal prefixes.
        pieces_of: leading cached pieces of a waiting request.
        parameters: bounds on overtaking, for a policy in order of arrival: it has none of its
            own and needs some here.
    """

    def __init__(
        self,
        policy: OrderingPolicy,
        pieces_of: Callable[[QueueEntry], int],
        parameters: OrderingParameters,
    ) -> None:
        self._policy = policy
        self._pieces_of = pieces_of
        self.name = policy.name
        self.overtaking: Overtaking | None = policy.overtaking or _BOUNDS.adjusted(parameters)

    def key(self, entry: QueueEntry) -> OrderKey:
        """Band, cached pieces downwards, then the policy's own."""
        return (self.band(entry), -self._pieces_of(entry), *self._policy.key(entry))

    def band(self, entry: QueueEntry) -> int:
        """The policy's."""
        return self._policy.band(entry)
