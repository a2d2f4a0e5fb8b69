"""Prompt tokens that a worker would have to compute."""

from weir_scheduler.placement.candidate import Candidate
from weir_scheduler.placement.context import PlacementContext
from weir_scheduler.queues.entry import QueueEntry


class UncachedPrefill:
    """The prompt, less what the worker's cache saves; of its session all that but one token.

    Bounded affinity (consistent hashing with bounded loads, Mirrokni et al. 2018, as a bound on
    credit): on a worker whose recent work is above `(1 + epsilon) x mean + c` a prefix saves
    nothing, so one that all prompts share is soon cached by more workers.
    """

    def cost(self, entry: QueueEntry, candidate: Candidate, context: PlacementContext) -> float:
        """Tokens, from 1 to the prompt's."""
        if candidate.has_session:
            return 1.0
        if candidate.view.recent > context.affinity_bound:
            return float(entry.prompt_tokens)
        return float(entry.prompt_tokens - candidate.cached_tokens)
