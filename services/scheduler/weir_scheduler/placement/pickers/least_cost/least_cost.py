"""The cheapest candidate."""

import random
from collections.abc import Sequence

from weir_scheduler.placement.candidate import Candidate


class LeastCost:
    """Lowest cost; equal ones are drawn by lot, never by index."""

    def pick(
        self, candidates: Sequence[Candidate], costs: Sequence[float], rng: random.Random
    ) -> Candidate:
        """One with the lowest cost."""
        least = min(costs)
        best = [one for one, cost in zip(candidates, costs, strict=True) if cost == least]
        return best[0] if len(best) == 1 else rng.choice(best)
