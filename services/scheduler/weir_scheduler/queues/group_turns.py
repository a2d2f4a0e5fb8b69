"""Whose turn it is among the groups of a lane: class first, then length within the class."""

from collections.abc import Collection

from weir_scheduler.queues.entry import RequestClass
from weir_scheduler.queues.group import Group
from weir_scheduler.queues.rounds.weighted.service_counters import ServiceCounters
from weir_scheduler.rules.pool_scope import PromptLength
from weir_scheduler.rules.shares import Shares


class GroupTurns:
    """Shares by service, on two levels: what waits is served at least by its share.

    Args:
        shares: of the pool.
    """

    def __init__(self, shares: Shares) -> None:
        self._ready: set[Group] = set()
        self._class_weights: dict[str, int] = {
            request_class: shares.of_class(request_class) for request_class in RequestClass
        }
        self._length_weights: dict[str, int] = {
            length: shares.of_length(length) for length in PromptLength
        }
        self._classes = ServiceCounters(self._class_weights.__getitem__)
        self._lengths = {
            request_class: ServiceCounters(self._length_weights.__getitem__)
            for request_class in RequestClass
        }
        self._knows_long = False

    @property
    def ready(self) -> Collection[Group]:
        """Groups in which something waits that may run."""
        return self._ready

    def set_ready(self, group: Group, *, ready: bool) -> None:
        """A group begins or ceases to compete, with the lift of the counters."""
        if ready == (group in self._ready):
            return
        counters, name = self._lengths[group.request_class], _length(group)
        beside = [other for other in self._ready if other.request_class is group.request_class]
        classes = {other.request_class for other in self._ready}
        if ready:
            self._knows_long |= group.long
            if not beside:
                self._arrive(self._classes, group.request_class, classes)
            self._arrive(counters, name, [_length(other) for other in beside if other != group])
            self._ready.add(group)
            return
        self._ready.discard(group)
        counters.leave(name)
        if beside == [group]:
            self._classes.leave(group.request_class)

    def charge(self, group: Group, service: int) -> None:
        """Adds weighted tokens of service; negative gives back."""
        self._classes.charge(group.request_class, service)
        if self._knows_long:
            self._lengths[group.request_class].charge(_length(group), service)

    def next(self, groups: Collection[Group]) -> Group:
        """Of some groups, one or more, the one whose turn it is."""
        if len(groups) == 1:
            return next(iter(groups))
        return min(groups, key=self._turn)

    def share(self, group: Group) -> float:
        """Part of the lane's service that a group has beside those that are ready."""
        competing = self._ready | {group}
        if len(competing) == 1:
            return 1.0
        classes = {other.request_class for other in competing}
        of_class = self._class_weights[group.request_class] / sum(
            self._class_weights[request_class] for request_class in classes
        )
        of_length = self._length_weights[_length(group)] / sum(
            self._length_weights[_length(other)]
            for other in competing
            if other.request_class is group.request_class
        )
        return of_class * of_length

    def _turn(self, group: Group) -> tuple[int, bool, int, bool]:
        offline = group.request_class is RequestClass.BATCH
        by_class = self._classes.value(group.request_class)
        by_length = self._lengths[group.request_class].value(_length(group))
        return by_class, offline, by_length, group.long

    def _arrive(self, counters: ServiceCounters, name: str, waiting: Collection[str]) -> None:
        counters.arrive(name, min((counters.value(other) for other in waiting), default=None))


def _length(group: Group) -> PromptLength:
    return PromptLength.LONG if group.long else PromptLength.SHORT
