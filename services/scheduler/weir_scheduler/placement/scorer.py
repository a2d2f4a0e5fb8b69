"""Scorers: what a worker would cost a request."""

from typing import Protocol

from weir_scheduler.placement.candidate import Candidate
from weir_scheduler.queues.entry import QueueEntry


class Scorer(Protocol):
    """Compares workers for one request."""

    def cost(self, entry: QueueEntry, candidate: Candidate) -> float:
        """Lowest is best; equal costs are drawn by lot."""


class LeastCost:
    """Tokens to be computed before the answer: uncached prefill plus backlog.

    Affinity is thereby bounded: a cached prefix or a session is worth at most the prompt that
    it saves, and a worker that is that much busier loses. (Longest prefix alone sends
    everything to one worker when all prompts begin alike.)
    """

    def cost(self, entry: QueueEntry, candidate: Candidate) -> float:
        """Uncached prompt tokens + estimated cost of what the worker has already."""
        saved = entry.prompt_tokens if candidate.has_session else candidate.cached_tokens
        return entry.prompt_tokens - saved + candidate.view.cost
