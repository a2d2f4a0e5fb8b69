"""Placement of one request: filter, score, pick."""

import random
from collections import Counter
from collections.abc import Sequence

from weir_core.prefix_hash import PREFIX_GRANULARITY
from weir_scheduler.placement.candidate import Candidate
from weir_scheduler.placement.fit import blocked_by, never_fits
from weir_scheduler.placement.placement import Blocked, Placed, Placement, Stranded, TooLarge
from weir_scheduler.placement.scorer import LeastCost, Scorer
from weir_scheduler.queues.entry import QueueEntry
from weir_scheduler.queues.wait_reason import WaitReason
from weir_scheduler.workers.worker_view import WorkerView


class Placer:
    """Chooses a worker over immutable views; holds no state but its source of lots.

    Args:
        scorer: what is compared.
        rng: breaks ties, so that equal workers share the load (never by index).
        granularity: tokens per prefix hash.
    """

    def __init__(
        self,
        scorer: Scorer | None = None,
        rng: random.Random | None = None,
        granularity: int = PREFIX_GRANULARITY,
    ) -> None:
        self._scorer = scorer or LeastCost()
        self._rng = rng or random.Random()
        self._granularity = granularity

    def place(
        self, entry: QueueEntry, views: Sequence[WorkerView], session_worker: str | None = None
    ) -> Placement:
        """Places a request on one of the workers that serve its lane.

        Args:
            entry: the request.
            views: every worker of the lane that is not lost.
            session_worker: the worker of its session's last turn, a hint.
        """
        refusals = [never_fits(entry, view.info, view.rules) for view in views]
        fitting = [view for view, why in zip(views, refusals, strict=True) if why is None]
        if views and not fitting:
            return TooLarge(_closest(refusals))
        if not any(view.takes_work for view in views):
            return Blocked(WaitReason.NO_WORKER)
        allowed = [
            view
            for view in fitting
            if view.takes_work and view.info.worker_id not in entry.excluded
        ]
        if not allowed:
            return Stranded()
        return self._pick(entry, allowed, session_worker)

    def _pick(
        self, entry: QueueEntry, allowed: Sequence[WorkerView], session_worker: str | None
    ) -> Placement:
        reasons = [blocked_by(entry, view) for view in allowed]
        free = [view for view, why in zip(allowed, reasons, strict=True) if why is None]
        if not free:
            return Blocked(Counter(why for why in reasons if why is not None).most_common(1)[0][0])
        candidates = [self._candidate(entry, view, session_worker) for view in free]
        costs = [self._scorer.cost(entry, candidate) for candidate in candidates]
        least = min(costs)
        best = [c for c, cost in zip(candidates, costs, strict=True) if cost == least]
        return Placed(self._rng.choice(best))

    def _candidate(
        self, entry: QueueEntry, view: WorkerView, session_worker: str | None
    ) -> Candidate:
        hit = view.prefixes.leading(entry.prefix_hashes) * self._granularity
        return Candidate(
            view=view,
            # At least the last token is always computed.
            cached_tokens=min(hit, entry.prompt_tokens - 1),
            has_session=view.info.worker_id == session_worker,
        )


def _closest(refusals: Sequence[str | None]) -> str:
    """The refusal of one worker stands for all: they serve the same model."""
    return next(why for why in refusals if why is not None)
