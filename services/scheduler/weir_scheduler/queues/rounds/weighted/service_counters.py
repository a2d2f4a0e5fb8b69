"""Weighted virtual token counters.

Source: Sheng et al., "Fairness in Serving Large Language Models" (OSDI 2024), algorithm 2 with
the weights of its section on weighted service: every charge is divided by the client's weight.
"""

from collections.abc import Callable

SCALE = 1_000_000
"""Counter units per weighted token at weight 1; integers, so that nothing drifts."""

_PRUNE_FROM = 1_024


class ServiceCounters:
    """Service received by each client, for choosing who is served next: the smallest.

    A client that comes back is lifted to the smallest counter of those that wait, or to that
    of the last one that left when nobody waits: idle time earns no credit. Counters of idle
    clients that a lift would override anyway are dropped, which bounds the memory; a client
    without a counter counts as lifted.

    Args:
        weight_of: weight of a client, 1 or more; read at each charge.
    """

    def __init__(self, weight_of: Callable[[str], int]) -> None:
        self._weight_of = weight_of
        self._counters: dict[str, int] = {}
        self._last_left = ""
        self._prune_at = _PRUNE_FROM

    def __len__(self) -> int:
        return len(self._counters)

    def value(self, client: str) -> int:
        """The counter, in 1/SCALE weighted tokens."""
        return self._counters.get(client, 0)

    def arrive(self, client: str, least_waiting: int | None) -> int:
        """Lifts a client that begins to wait; returns its counter.

        Args:
            client: who was not waiting until now.
            least_waiting: smallest counter among those that wait; None when nobody does.
        """
        floor = self._floor(least_waiting)
        lifted = max(self._counters.get(client, floor), floor)
        self._counters[client] = lifted
        return lifted

    def leave(self, client: str) -> None:
        """Notes that a client has nothing waiting that could be served."""
        self._last_left = client

    def charge(self, client: str, service: int, least_waiting: int | None = None) -> int:
        """Adds service (weighted tokens; negative gives back); returns the counter.

        A charge and its return cancel exactly.
        """
        weight = max(1, self._weight_of(client))
        charged = abs(service) * SCALE // weight
        counter = self._counters.get(client)
        if counter is None:
            counter = self._floor(least_waiting)
        counter += charged if service > 0 else -charged
        self._counters[client] = counter
        return counter

    def prune(self, least_waiting: int | None, waiting: Callable[[str], bool]) -> None:
        """Drops idle counters that the next lift overrides anyway, once there are many."""
        if len(self._counters) < self._prune_at:
            return
        floor = self._floor(least_waiting)
        self._counters = {
            client: counter
            for client, counter in self._counters.items()
            if counter > floor or client == self._last_left or waiting(client)
        }
        self._prune_at = max(_PRUNE_FROM, 2 * len(self._counters))

    def rebase(self, by: int) -> None:
        """Takes the same off every counter: only differences matter."""
        self._counters = {client: counter - by for client, counter in self._counters.items()}

    def _floor(self, least_waiting: int | None) -> int:
        """The last to leave counts with all that it has been charged since."""
        return self.value(self._last_left) if least_waiting is None else least_waiting
