"""Placement of one request: filter, score, pick."""

import random
from collections import Counter
from collections.abc import Sequence

from weir_core.prefix_hash import PREFIX_GRANULARITY
from weir_scheduler.placement.candidate import Candidate
from weir_scheduler.placement.context import PlacementContext
from weir_scheduler.placement.contracts import Filter, Picker, Scorer
from weir_scheduler.placement.fit import never_fits
from weir_scheduler.placement.placement import (
    AwaitsSession,
    Blocked,
    Placed,
    Placement,
    Stranded,
    TooLarge,
)
from weir_scheduler.placement.plugins import FILTERS, PICKERS, ROOM, SCORERS
from weir_scheduler.queues.entry import QueueEntry
from weir_scheduler.queues.wait_reason import WaitReason
from weir_scheduler.workers.worker_view import WorkerView


class Placer:
    """Chooses a worker over immutable views; holds no state but its source of lots.

    Args:
        filters: who may have a request at all; a refusal is not waited for here.
        room: who has room now; a refusal is waited for.
        scorers: whose costs are added.
        picker: picks by cost.
        rng: breaks ties.
        granularity: tokens per prefix hash.
    """

    def __init__(
        self,
        *,
        filters: Sequence[Filter] | None = None,
        room: Filter | None = None,
        scorers: Sequence[Scorer] | None = None,
        picker: Picker | None = None,
        rng: random.Random | None = None,
        granularity: int = PREFIX_GRANULARITY,
    ) -> None:
        self._filters = tuple(FILTERS.values() if filters is None else filters)
        self._room = room or ROOM["has_room"]
        self._scorers = tuple(SCORERS.values() if scorers is None else scorers)
        self._picker = picker or PICKERS["least_cost"]
        self._rng = rng or random.Random()
        self._granularity = granularity

    def place(
        self,
        entry: QueueEntry,
        views: Sequence[WorkerView],
        context: PlacementContext | None = None,
    ) -> Placement:
        """Places a request on one of the workers that serve its lane.

        Args:
            entry: the request.
            views: every worker of the lane that is not lost.
            context: of the decision.
        """
        context = context or PlacementContext()
        fitting = [view for view in views if never_fits(entry, view.info, view.rules) is None]
        if views and not fitting:
            # One worker's refusal stands for all: they serve the same model.
            return TooLarge(str(never_fits(entry, views[0].info, views[0].rules)))
        if not any(view.takes_work for view in views):
            return Blocked(WaitReason.NO_WORKER)
        allowed = [view for view in fitting if self._admits(entry, view, context)]
        if not allowed:
            return Stranded()
        return self._choose(entry, allowed, context)

    def _admits(self, entry: QueueEntry, view: WorkerView, context: PlacementContext) -> bool:
        return all(one.refuses(entry, view, context) is None for one in self._filters)

    def _choose(
        self, entry: QueueEntry, allowed: Sequence[WorkerView], context: PlacementContext
    ) -> Placement:
        reasons = [self._room.refuses(entry, view, context) for view in allowed]
        free = [view for view, why in zip(allowed, reasons, strict=True) if why is None]
        if not free:
            return Blocked(Counter(why for why in reasons if why is not None).most_common(1)[0][0])
        candidates = [self._candidate(entry, view, context) for view in free]
        costs = [self._cost(entry, candidate, context) for candidate in candidates]
        home = self._full_home(entry, allowed, reasons, context)
        if home is not None and self._cost(entry, home, context) < min(costs):
            until_us = entry.enqueued_us + context.rules.session_wait_us
            return AwaitsSession(home.view.info.worker_id, until_us)
        return Placed(self._picker.pick(candidates, costs, self._rng))

    def _full_home(
        self,
        entry: QueueEntry,
        allowed: Sequence[WorkerView],
        reasons: Sequence[WaitReason | None],
        context: PlacementContext,
    ) -> Candidate | None:
        """The worker of the session, if it is full and may still be waited for."""
        home = context.session_worker if context.may_wait else None
        if home is None or context.now_us >= entry.enqueued_us + context.rules.session_wait_us:
            return None
        for view, why in zip(allowed, reasons, strict=True):
            if view.info.worker_id == home and why is not None:
                return self._candidate(entry, view, context)
        return None

    def _cost(self, entry: QueueEntry, candidate: Candidate, context: PlacementContext) -> float:
        return sum(scorer.cost(entry, candidate, context) for scorer in self._scorers)

    def _candidate(
        self, entry: QueueEntry, view: WorkerView, context: PlacementContext
    ) -> Candidate:
        hit = view.prefixes.leading(entry.prefix_hashes) * self._granularity
        return Candidate(
            view=view,
            # At least the last token is always computed.
            cached_tokens=min(hit, entry.prompt_tokens - 1),
            has_session=view.info.worker_id == context.session_worker,
        )
