"""How short requests get past a long one that finds no room, and how far."""

from weir_scheduler.queues.entry import RequestClass
from weir_scheduler.queues.group import Group
from weir_scheduler.queues.wait_reason import WaitReason
from weir_scheduler.rules.shares import Shares

MAX_PASSED = 16
"""So many requests of its class may get past a long one before room is kept for it."""


class FastLane:
    """Heads that were passed over, and what went past them since.

    A long head that waits for room holds up nobody at first. Small requests would take every
    block that is freed, though, so after `MAX_PASSED` of them (of other classes as many more as
    their share is larger) it is *owed*: it is tried before all others, and the worker that is
    nearest to having room for it takes nobody else.
    """

    def __init__(self) -> None:
        self.passed: dict[Group, tuple[str, WaitReason]] = {}
        """In the last pass: request id and reason of the heads that were passed over."""
        self._overtaken: dict[Group, tuple[str, int]] = {}

    def begin_pass(self) -> None:
        """Every group may be tried again."""
        self.passed.clear()

    def passes(self, group: Group, request_id: str, reason: WaitReason) -> None:
        """The head of a group has no room, and others are tried."""
        self.passed[group] = request_id, reason
        if not group.long or reason is WaitReason.LONG_CAP:
            # A cap of its own is nobody's fault but its own kind's.
            self._overtaken.pop(group, None)
        elif self._overtaken.get(group, ("", 0))[0] != request_id:
            self._overtaken[group] = request_id, 0

    def dispatched(self, group: Group) -> None:
        """A request of a group went to a worker."""
        self._overtaken.pop(group, None)
        for other in self.passed:
            if other in self._overtaken:
                request_id, count = self._overtaken[other]
                self._overtaken[other] = request_id, count + 1

    def is_owed(self, group: Group, shares: Shares) -> bool:
        """Whether the head of a group has been overtaken often enough."""
        known = self._overtaken.get(group)
        if known is None:
            return False
        own = shares.of_class(group.request_class)
        others = max(shares.of_class(request_class) for request_class in RequestClass)
        return known[1] >= MAX_PASSED * max(1, others // own)
