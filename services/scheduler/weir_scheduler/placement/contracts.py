"""What may be exchanged in a placement: filters, scorers, pickers.

Filters say who may have a request, scorers what it would cost there, and pickers only pick.
All are stateless: they see one request, immutable views of workers, and the context.
"""

import random
from collections.abc import Sequence
from typing import Protocol

from weir_scheduler.placement.candidate import Candidate
from weir_scheduler.placement.context import PlacementContext
from weir_scheduler.queues.entry import QueueEntry
from weir_scheduler.queues.wait_reason import WaitReason
from weir_scheduler.workers.worker_view import WorkerView


class Filter(Protocol):
    """Keeps workers out."""

    def refuses(
        self, entry: QueueEntry, view: WorkerView, context: PlacementContext
    ) -> WaitReason | None:
        """Why a worker may not have a request now; None if it may."""


class Scorer(Protocol):
    """Prices one aspect; the costs of all scorers of a placement are added."""

    def cost(self, entry: QueueEntry, candidate: Candidate, context: PlacementContext) -> float:
        """Tokens to be computed before the answer begins, 0 or more; less is better."""


class Picker(Protocol):
    """Chooses among candidates whose costs are known."""

    def pick(
        self, candidates: Sequence[Candidate], costs: Sequence[float], rng: random.Random
    ) -> Candidate:
        """One of the candidates, of which there is at least one."""
