"""What a run came to."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from weir_sim.workload import SimRequest


class Ending(StrEnum):
    """How a request ended.

    Attributes:
        COMPLETED: it has produced `output_tokens`.
        REFUSED: the limiter refused it; the scheduler never saw it.
        REJECTED: the scheduler refused it or gave it up.
        LOST: its worker was lost after something was streamed.
        UNFINISHED: the run ended first.
    """

    COMPLETED = "completed"
    REFUSED = "refused"
    REJECTED = "rejected"
    LOST = "lost"
    UNFINISHED = "unfinished"


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """One request's life; times are seconds since the begin of the run, None if it never came.

    Attributes:
        request: what arrived.
        outcome: how it ended.
        queued_s: entered the scheduler's queue.
        dispatched_s: left it, at the last attempt.
        first_token_s: first output token was streamed.
        end_s: its end, of whatever kind.
        output_tokens: produced.
        gap_max_s: longest time between two output tokens; 0 with fewer than two.
        gap_p99_s: 99th percentile of these gaps.
        cached_tokens: prompt tokens found in the cache by the last attempt.
        computed_tokens: prompt and output tokens computed again or for the first time, over
            all attempts.
        attempts: dispatches.
        preemptions: times that its KV was taken away.
        worker: id of the last one; empty for none.
        reason: why it did not complete; empty when it did.
    """

    request: SimRequest
    outcome: Ending
    queued_s: float | None = None
    dispatched_s: float | None = None
    first_token_s: float | None = None
    end_s: float | None = None
    output_tokens: int = 0
    gap_max_s: float = 0.0
    gap_p99_s: float = 0.0
    cached_tokens: int = 0
    computed_tokens: int = 0
    attempts: int = 0
    preemptions: int = 0
    worker: str = ""
    reason: str = ""

    @property
    def wait_s(self) -> float | None:
        """Seconds in the queue until the last dispatch."""
        if self.dispatched_s is None:
            return None
        return self.dispatched_s - self.request.arrival_s

    @property
    def ttft_s(self) -> float | None:
        """Seconds to the first token."""
        return None if self.first_token_s is None else self.first_token_s - self.request.arrival_s

    @property
    def tpot_s(self) -> float | None:
        """Mean seconds of an output token after the first; None without two."""
        if self.first_token_s is None or self.end_s is None or self.output_tokens < 2:
            return None
        return (self.end_s - self.first_token_s) / (self.output_tokens - 1)


@dataclass(frozen=True)
class ServiceLog:
    """Service of tenants over time, sampled; rows are moments, columns `tenants`.

    Attributes:
        tenants: sorted.
        times_s: moments.
        charged: cumulated service by the scheduler's own account, weighted tokens.
        computed: what workers have computed, at the same weights: uncached prompt tokens w_p,
            output tokens w_q; work done again after a pre-emption or a loss counts for nobody.
        waiting: requests in the scheduler's queue.
    """

    tenants: tuple[str, ...]
    times_s: NDArray[np.float64]
    charged: NDArray[np.int64]
    computed: NDArray[np.int64]
    waiting: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class WorkerSummary:
    """What one worker did.

    Attributes:
        worker_id: `w0`, `w1`, ...
        steps: engine steps.
        busy_s: seconds in them.
        up_s: seconds registered.
        prefill_tokens: prompt tokens computed, recomputed ones included.
        decode_tokens: sequences advanced by one token, over all steps.
        recomputed_tokens: computed again after a pre-emption.
        cached_tokens: prompt tokens found in its cache.
        preemptions: for want of memory.
        attempts: that arrived.
        peak_held_blocks: most KV blocks held by sequences.
        kv_blocks: size of its cache.
    """

    worker_id: str
    steps: int
    busy_s: float
    up_s: float
    prefill_tokens: int
    decode_tokens: int
    recomputed_tokens: int
    cached_tokens: int
    preemptions: int
    attempts: int
    peak_held_blocks: int
    kv_blocks: int


@dataclass(frozen=True, slots=True)
class Decision:
    """One dispatch of the scheduler."""

    at_s: float
    request_id: str
    attempt: int
    worker_id: str


@dataclass(frozen=True)
class Outcome:
    """Everything that a run came to.

    Attributes:
        records: one for each request, in the order of the workload.
        service: by tenant over time.
        workers: by index of `Setup.workers`, and those that an autoscaler added.
        refused: requests that did not run, by reason.
        scheduler_decisions: every dispatch, in order.
        end_s: when the last thing happened.
        gaps_s: every time between two tokens of one answer, if the setup keeps them.
        pumps: times that the scheduler was asked to decide.
        scale_events: moment and number of workers, whenever an autoscaler changed it.
    """

    records: tuple[RequestRecord, ...]
    service: ServiceLog
    workers: tuple[WorkerSummary, ...]
    refused: Mapping[str, int]
    scheduler_decisions: tuple[Decision, ...]
    end_s: float
    gaps_s: NDArray[np.float64] | None = None
    pumps: int = 0
    scale_events: tuple[tuple[float, int], ...] = field(default=())

    @property
    def completed(self) -> tuple[RequestRecord, ...]:
        """Records of the requests that completed."""
        return tuple(r for r in self.records if r.outcome is Ending.COMPLETED)
