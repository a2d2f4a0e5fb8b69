"""How long a request that comes now would wait: a pure function of counts and rates.

In tokens, because turns are taken in tokens. Before a request is dispatched, what is ahead of it
in its tenant's queue must be, and of every other tenant as much per weight; but never more than
waits at all. The same holds between groups, by their shares. Over the rate at which tokens leave
the lane while its workers are full, that is time.
"""

from dataclasses import dataclass

from weir_scheduler.queues.backlog import Amount

FEWEST_DISPATCHES = 4
"""Before so many have been seen, a rate is a guess."""

_OWN_DISPATCHES = 8


@dataclass(frozen=True, slots=True)
class Ahead:
    """What is before a request.

    Attributes:
        cost: its own estimated cost, tokens.
        own: of its tenant's queue, or of all where all are one queue.
        group_cost: everything of its class and length that competes, tokens.
        lane_cost: everything in the lane that competes, tokens.
        tenant_share: its tenant's part of the group's service, above 0 to 1.
        group_share: the group's part of the lane's service, above 0 to 1.
    """

    cost: int
    own: Amount
    group_cost: int
    lane_cost: int
    tenant_share: float
    group_share: float


@dataclass(frozen=True, slots=True)
class Rates:
    """How fast things leave.

    Attributes:
        tokens_per_s: of the lane while workers are full; 0 when nothing moves.
        seen: dispatches that this is known from.
        own_per_s: requests per second of the tenant's own queue.
        own_seen: dispatches that this is known from.
    """

    tokens_per_s: float
    seen: int
    own_per_s: float = 0.0
    own_seen: int = 0


@dataclass(frozen=True, slots=True)
class Forecast:
    """A predicted wait.

    Attributes:
        wait_s: until the dispatch, seconds; infinite when nothing moves.
        each_s: by how much one more request of its tenant ahead would prolong that, seconds.
        any_s: between two dispatches of such requests from the lane, whose ever, seconds.
    """

    wait_s: float
    each_s: float
    any_s: float


def forecast(ahead: Ahead, rates: Rates, extra: int = 0) -> Forecast | None:
    """The wait of a request; None when too little is known.

    Args:
        ahead: what is before it.
        rates: how fast that goes.
        extra: requests like it that are to be counted before it besides.
    """
    any_s = ahead.cost / rates.tokens_per_s if rates.tokens_per_s > 0 else float("inf")
    if rates.own_seen >= _OWN_DISPATCHES and rates.own_per_s > 0:
        each_s = 1 / rates.own_per_s
        return Forecast((ahead.own.requests + extra + 1) * each_s, each_s, min(any_s, each_s))
    if rates.seen < FEWEST_DISPATCHES:
        return None
    if rates.tokens_per_s <= 0:
        return Forecast(float("inf"), float("inf"), float("inf"))
    own = ahead.own.cost + (extra + 1) * ahead.cost
    whole = (extra + 1) * ahead.cost
    of_group = min(ahead.group_cost + whole, own / ahead.tenant_share)
    of_lane = min(ahead.lane_cost + whole, of_group / ahead.group_share)
    each = ahead.cost / (ahead.tenant_share * ahead.group_share)
    return Forecast(of_lane / rates.tokens_per_s, each / rates.tokens_per_s, any_s)
