"""One attempt inside a simulated engine."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from weir_scheduler.workers.attempt_key import AttemptKey
from weir_scheduler.workers.worker_report import AttemptUsage
from weir_sim.workload import SimRequest


class SimSequence:
    """Tokens of an attempt and how far they are computed, as in the product's worker.

    While it runs, `computed < total`, and a step computes some of the difference. A step that
    computes all of it samples one token more.

    Attributes:
        key: request and attempt.
        request: what it came from.
        weight: of its tenant, for the choice of a victim.
        age: order of arrival at the worker, the smallest is the oldest.
        total: prompt and output so far, tokens.
        target: `total` at which it ends.
        computed: leading tokens whose KV is there.
        high_water: the most that `computed` ever was; below it, work is done again.
        cached: prompt tokens found in the cache at first admission.
        blocks: KV blocks held, shared ones included.
        shared: of these, the prefix units that others may find.
        recomputed: tokens computed again.
        first_token_us: when its first token was sampled; -1 before.
        last_token_us: when its last one was.
        decode_from: index of the first of the engine's decode steps since it decodes.
        carried: leading tokens whose KV comes with it from another engine.
        gaps: times between its tokens, microseconds, of finished stretches of decoding.
    """

    __slots__ = (
        "age",
        "blocks",
        "cached",
        "carried",
        "computed",
        "decode_from",
        "first_token_us",
        "gaps",
        "high_water",
        "key",
        "last_token_us",
        "preemptions",
        "prompt",
        "recomputed",
        "request",
        "shared",
        "target",
        "tenant",
        "total",
        "weight",
    )

    def __init__(self, key: AttemptKey, request: SimRequest, weight: int, age: int) -> None:
        self.key = key
        self.request = request
        self.tenant = request.tenant_id
        self.weight = weight
        self.age = age
        self.prompt = request.prompt_tokens
        output = min(request.output_tokens, request.most_new_tokens)
        self.total = self.prompt
        self.target = self.prompt + output
        self.computed = 0
        self.high_water = 0
        self.cached = 0
        self.blocks = 0
        self.shared: list[bytes] = []
        self.preemptions = 0
        self.recomputed = 0
        self.first_token_us = -1
        self.last_token_us = -1
        self.decode_from = 0
        self.carried = 0
        self.gaps: list[NDArray[Any]] = []

    @property
    def output(self) -> int:
        """Tokens sampled so far."""
        return self.total - self.prompt

    @property
    def remaining(self) -> int:
        """Tokens to compute before the next one can be sampled."""
        return self.total - self.computed

    def start_at(self, hit: int) -> None:
        """Begins to run with the first `hit` tokens found in the cache."""
        self.computed = max(hit, self.carried)
        if self.computed > self.high_water:
            if not self.carried:
                self.cached += self.computed - self.high_water
            self.high_water = self.computed

    def restart(self) -> None:
        """Its KV is gone: all of it is computed again."""
        self.high_water = max(self.high_water, self.computed)
        self.computed = 0
        self.carried = 0
        self.preemptions += 1

    def usage(self) -> AttemptUsage:
        """Tokens so far, in the scheduler's terms."""
        return AttemptUsage(
            prompt_tokens=min(self.prompt, max(self.computed, self.high_water)),
            cached_prompt_tokens=self.cached,
            completion_tokens=self.output,
        )

    def add_gap(self, us: int) -> None:
        """A token came so long after the one before."""
        self.gaps.append(np.array([us], dtype=np.int64))

    def gap_summary_s(self) -> tuple[float, float]:
        """Longest and 99th percentile of the times between tokens, seconds; 0 without any."""
        if not self.gaps:
            return 0.0, 0.0
        gaps = self.gaps[0] if len(self.gaps) == 1 else np.concatenate(self.gaps)
        ordered = np.sort(gaps)
        rank = max(0, -(-99 * len(ordered) // 100) - 1)
        return float(ordered[-1]) / 1e6, float(ordered[rank]) / 1e6
