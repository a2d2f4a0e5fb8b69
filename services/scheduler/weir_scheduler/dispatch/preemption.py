"""Pre-emption by policy: who may take whose place. Pure decisions, no state but credit.

Not to be confused with the pre-emption of a worker whose memory is full (`weir_worker`).
Bounds after the insertion caps of priority schedulers: strictly less urgent victims alone, so
that peers never trade places; never after the first token; each request is pre-empted and
overtaken a bounded number of times; and only a share of the dispatches may pre-empt.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from weir_scheduler.queues.entry import QueueEntry, RequestClass
from weir_scheduler.rules.preemption_rules import PreemptionRules
from weir_scheduler.workers.attempt_key import AttemptKey

BURST = 5
"""Pre-emptions that may be saved up while nobody needs one."""

_MILLIS = 1_000
_RANKS = {RequestClass.BATCH: 0, RequestClass.INTERACTIVE: 1}


@dataclass(frozen=True, slots=True)
class Occupant:
    """A dispatched attempt of which nothing was sampled yet, as a possible victim.

    Attributes:
        key: of the attempt.
        worker_id: where it has its place.
        tenant_id: whose.
        request_class: of the request.
        priority: of the request.
        order: of dispatch; higher is newer.
        preemptions: places that the request has lost already.
        overtaken: times that the request was overtaken already.
    """

    key: AttemptKey
    worker_id: str
    tenant_id: str
    request_class: RequestClass
    priority: int
    order: int
    preemptions: int
    overtaken: int


def more_urgent(entry: QueueEntry, occupant: Occupant, *, across_tenants: bool) -> bool:
    """Whether a waiting request is strictly more urgent than a dispatched one.

    By class, then by priority. Where tenants take turns by weight (`across_tenants` false)
    priorities are compared within one tenant alone: between tenants the turn decides.
    """
    mine, others = _RANKS[entry.request_class], _RANKS[occupant.request_class]
    if mine != others:
        return mine > others
    comparable = across_tenants or entry.tenant_id == occupant.tenant_id
    return comparable and entry.priority > occupant.priority


def choose_victim(
    entry: QueueEntry,
    occupants: Iterable[Occupant],
    rules: PreemptionRules,
    *,
    across_tenants: bool,
    frees: Callable[[Occupant], bool],
) -> Occupant | None:
    """The one attempt that gives its place to a waiting request; None if none may.

    Lowest class first, then lowest priority, then the newest, which loses least.

    Args:
        entry: who waits.
        occupants: attempts of which nothing was sampled.
        rules: the caps.
        across_tenants: whether priorities of different tenants compare.
        frees: whether the request fits where an attempt is, once that is gone.
    """
    eligible = (
        occupant
        for occupant in occupants
        if occupant.preemptions < rules.max_preemptions
        and occupant.overtaken < rules.max_overtakings
        and more_urgent(entry, occupant, across_tenants=across_tenants)
    )
    for occupant in sorted(eligible, key=_least_urgent_first):
        if frees(occupant):
            return occupant
    return None


def _least_urgent_first(occupant: Occupant) -> tuple[int, int, int]:
    return _RANKS[occupant.request_class], occupant.priority, -occupant.order


class OvertakeCredit:
    """Holds pre-emptions to a share of the dispatches.

    Of any n dispatches in a row at most `ratio x n + BURST` pre-empt, and of the first n at
    most `ratio x n + 1`.
    """

    __slots__ = ("_millis",)

    def __init__(self) -> None:
        self._millis = _MILLIS

    @property
    def available(self) -> bool:
        """Whether one more may pre-empt."""
        return self._millis >= _MILLIS

    def dispatched(self, ratio_millis: int) -> None:
        """Counts a dispatch."""
        self._millis = min(BURST * _MILLIS, self._millis + ratio_millis)

    def spend(self) -> None:
        """A place is taken back."""
        self._millis -= _MILLIS

    def give_back(self) -> None:
        """The place was not taken back after all."""
        self._millis = min(BURST * _MILLIS, self._millis + _MILLIS)
