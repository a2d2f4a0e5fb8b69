"""Placements that others use, for comparison; none is in the product."""

import random
from collections.abc import Callable, Mapping, Sequence

from weir_scheduler.placement.candidate import Candidate
from weir_scheduler.placement.context import PlacementContext
from weir_scheduler.placement.contracts import Picker, Scorer
from weir_scheduler.placement.placer import Placer
from weir_scheduler.placement.scorers.backlog.backlog import Backlog
from weir_scheduler.queues.entry import QueueEntry
from weir_sim.setup import PlacerFactory

_SGL_THRESHOLD, _SGL_ABSOLUTE, _SGL_RELATIVE = 0.5, 32, 1.1
_BOUND = 1.25


class _Uncached:
    """Longest prefix wins, whatever the load."""

    def cost(self, entry: QueueEntry, candidate: Candidate, context: PlacementContext) -> float:
        return float(entry.prompt_tokens - candidate.cached_tokens)


class _First:
    """The first of the cheapest, as an argmax over a list of workers finds it."""

    def pick(
        self, candidates: Sequence[Candidate], costs: Sequence[float], rng: random.Random
    ) -> Candidate:
        return candidates[min(range(len(costs)), key=lambda at: costs[at])]


class _Turns:
    """Round robin."""

    def __init__(self) -> None:
        self._turn = 0
        self._last: dict[str, int] = {}

    def pick(
        self, candidates: Sequence[Candidate], costs: Sequence[float], rng: random.Random
    ) -> Candidate:
        chosen = min(candidates, key=lambda one: self._last.get(one.view.info.worker_id, -1))
        self._turn += 1
        self._last[chosen.view.info.worker_id] = self._turn
        return chosen


class _Sgl:
    """SGLang's cache-aware rule: the longest match above a threshold while loads, counted in
    requests, are balanced; else the least loaded. Costs are uncached tokens.
    """

    def pick(
        self, candidates: Sequence[Candidate], costs: Sequence[float], rng: random.Random
    ) -> Candidate:
        loads = [one.view.requests for one in candidates]
        most, least = max(loads), min(loads)
        best = min(range(len(candidates)), key=lambda at: costs[at])
        cached = candidates[best].cached_tokens
        matches = cached > _SGL_THRESHOLD * (cached + costs[best])
        balanced = most - least <= _SGL_ABSOLUTE or most <= _SGL_RELATIVE * least
        if matches and balanced:
            return candidates[best]
        return rng.choice([one for one in candidates if one.view.requests == least])


class _Bounded:
    """Longest prefix among workers with at most 1.25 times the mean number of requests."""

    def pick(
        self, candidates: Sequence[Candidate], costs: Sequence[float], rng: random.Random
    ) -> Candidate:
        mean = sum(one.view.requests for one in candidates) / len(candidates)
        allowed = [
            (cost, one)
            for cost, one in zip(costs, candidates, strict=True)
            if one.view.requests <= _BOUND * mean + 1
        ]
        least = min(cost for cost, _ in allowed)
        return rng.choice([one for cost, one in allowed if cost == least])


def _factory(
    scorers: Sequence[Scorer], picker: Callable[[], Picker] | None = None
) -> PlacerFactory:
    def make(rng: random.Random, granularity: int) -> Placer:
        chosen = picker() if picker else None
        return Placer(scorers=scorers, picker=chosen, rng=rng, granularity=granularity)

    return make


PLACERS: Mapping[str, PlacerFactory] = {
    "random": _factory(()),
    "round_robin": _factory((), _Turns),
    "least": _factory((Backlog(),)),
    "max_prefix": _factory((_Uncached(),), _First),
    "sgl_rule": _factory((_Uncached(),), _Sgl),
    "bounded": _factory((_Uncached(),), _Bounded),
}
