"""A synthetic workload that imitates a published one."""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from weir_core.prefix_hash import PREFIX_GRANULARITY
from weir_sim.generator.gaps import GapFamily, unit_gaps
from weir_sim.generator.prefixes import PrefixIds, PrefixModel
from weir_sim.generator.quantiles import Quantiles
from weir_sim.traces.trace_row import TraceRow

_CHUNK = 256


@dataclass(frozen=True, slots=True)
class Figures:
    """Published statistics of lengths, tokens."""

    mean: float
    p50: float
    p90: float
    p99: float


@dataclass(frozen=True, slots=True)
class Published:
    """What the generated load is held against.

    Attributes:
        prompt: lengths of prompts; None where only those of single clients are published.
        output: lengths of outputs, likewise.
        gap_cv: of the gaps between arrivals; None where arrivals are not its point.
        reused: share of prompt tokens whose prefix had come before; None without prefixes.
    """

    prompt: Figures | None = None
    output: Figures | None = None
    gap_cv: float | None = None
    reused: float | None = None


@dataclass(frozen=True)
class Client:
    """One source of arrivals.

    Attributes:
        share: of the load's rate.
        cv: of its gaps.
        family: of its gaps.
        prompt_scale: its prompts are so many times as long.
        output_scale: its outputs likewise.
    """

    share: float
    cv: float
    family: GapFamily = GapFamily.GAMMA
    prompt_scale: float = 1.0
    output_scale: float = 1.0


@dataclass(frozen=True)
class Preset:
    """A load without end, the same for the same seed.

    Attributes:
        name: what it imitates.
        source: where the statistics are published.
        rate_rps: of all clients together.
        clients: one that stands for all, or several that are told apart.
        prompt: lengths of prompts.
        output: lengths of outputs.
        published: what it is held against.
        prefixes: how prompts begin alike; None: they do not.
        requests: that a run takes when it names no number.
    """

    name: str
    source: str
    rate_rps: float
    clients: tuple[Client, ...]
    prompt: Quantiles
    output: Quantiles
    published: Published
    prefixes: PrefixModel | None = None
    requests: int = 2_000

    @property
    def granularity(self) -> int:
        """Tokens that a prefix id stands for."""
        return self.prefixes.granularity if self.prefixes else PREFIX_GRANULARITY

    def rows(self, seed: int) -> Iterator[TraceRow]:
        """Requests by arrival, without end."""
        streams = [self._of_client(index, seed) for index in range(len(self.clients))]
        rows = heapq.merge(*streams, key=lambda row: row.arrival_s or 0.0)
        return self._with_prefixes(rows, seed) if self.prefixes else rows

    def _of_client(self, index: int, seed: int) -> Iterator[TraceRow]:
        client = self.clients[index]
        rng = np.random.default_rng([seed, index])
        mean_gap_s = 1 / (self.rate_rps * client.share)
        name = str(index) if len(self.clients) > 1 else None
        # Clients do not begin together: each is somewhere in a gap when the run begins.
        now_s = -mean_gap_s * float(rng.uniform())
        while True:
            prompts = self.prompt.draw(rng, _CHUNK) * client.prompt_scale
            outputs = self.output.draw(rng, _CHUNK) * client.output_scale
            gaps = unit_gaps(rng, _CHUNK, client.cv, client.family) * mean_gap_s
            for gap_s, prompt, output in zip(gaps, prompts, outputs, strict=True):
                now_s += float(gap_s)
                if now_s < 0:
                    continue
                yield TraceRow(
                    prompt_tokens=max(1, round(float(prompt))),
                    output_tokens=max(1, round(float(output))),
                    arrival_s=now_s,
                    client=name,
                )

    def _with_prefixes(self, rows: Iterator[TraceRow], seed: int) -> Iterator[TraceRow]:
        assert self.prefixes is not None
        rng = np.random.default_rng([seed, len(self.clients)])
        ids: dict[str | None, PrefixIds] = {}
        for row in rows:
            of_client = ids.setdefault(row.client, PrefixIds(self.prefixes, rng))
            session, pieces = of_client.of(row.prompt_tokens)
            yield replace(row, session=session, prefix_ids=pieces)
