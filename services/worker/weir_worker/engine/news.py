"""Collects what happens in the engine until the next frame is sent."""

import heapq

from weir_core.clock import Clock
from weir_worker.engine.commands import Submit
from weir_worker.engine.events import (
    Delta,
    Failure,
    FinishReason,
    Prefilled,
    Progress,
    StepOutput,
    TenantKv,
    Terminal,
    Usage,
)
from weir_worker.engine.load import Counters, Load
from weir_worker.engine.planner import StepPlanner
from weir_worker.engine.sequence import Sequence
from weir_worker.engine.step_plan import StepPlan
from weir_worker.kv import KvManager
from weir_worker.sampling import TokenLogprobs

PROGRESS_INTERVAL_US = 500_000
MOST_TENANTS = 256


class News:
    """The only writer of deltas, terminals, gauges and counters."""

    def __init__(self, kv: KvManager, planner: StepPlanner, clock: Clock) -> None:
        self.counters = Counters()
        self._kv = kv
        self._planner = planner
        self._clock = clock
        self._deltas: list[Delta] = []
        self._prefilled: list[Prefilled] = []
        self._terminals: list[Terminal] = []
        self._progress_due_us = 0
        self._stranded_tokens = 0
        self._step_us = 0
        self._step_tokens = 0

    def computed(self, plan: StepPlan, run_us: int) -> None:
        """Count the rows of a step and share its time out by them."""
        counters = self.counters
        rows = sum(plan.lengths)
        decodes = plan.decodes
        counters.steps += 1
        counters.prefill_tokens += rows - decodes
        counters.decode_tokens += decodes
        counters.decode_us += run_us * decodes // rows
        counters.prefill_us += run_us - run_us * decodes // rows
        self._step_tokens = rows

    def prefill_ended(self, sequence: Sequence) -> None:
        """Report that the prompt is computed."""
        self._prefilled.append(
            Prefilled(
                sequence.request_id,
                sequence.attempt,
                sequence.prompt_tokens,
                sequence.cached_prompt_tokens,
                sequence.prefill_start_us,
                sequence.prefill_end_us,
            )
        )

    def sampled(self, sequence: Sequence, token_id: int, logprobs: TokenLogprobs | None) -> Delta:
        """Report one token; its text is still to be set."""
        self.counters.generated_tokens += 1
        told = [] if logprobs is None else [logprobs]
        key = sequence.request_id, sequence.attempt
        delta = Delta(*key, [token_id], "", told, sequence.told or [])
        self._deltas.append(delta)
        sequence.told = None
        return delta

    def embedded(self, sequence: Sequence, embedding: list[float]) -> None:
        """Report the embedding of a sequence."""
        key = sequence.request_id, sequence.attempt
        self._deltas.append(Delta(*key, [], "", embedding=embedding))

    def rejected(self, submit: Submit, failure: Failure) -> None:
        """End a submission of which nothing ran."""
        self.counters.rejected += 1
        now_us = self._clock.now_us()
        self._terminals.append(
            Terminal(
                submit.request_id,
                submit.attempt,
                submit.tenant,
                FinishReason.REJECTED,
                Usage(),
                failure,
                received_us=now_us,
                end_us=now_us,
            )
        )

    def finished(self, sequence: Sequence, reason: FinishReason, failure: Failure | None) -> None:
        """End a sequence that was taken; text still held back goes out before."""
        if reason is FinishReason.ABORT and (held := sequence.text.flush()):
            self._deltas.append(Delta(sequence.request_id, sequence.attempt, [], held))
        self._count(sequence, reason)
        self._terminals.append(
            Terminal(
                sequence.request_id,
                sequence.attempt,
                sequence.tenant,
                reason,
                sequence.usage(),
                failure,
                sequence.received_us,
                sequence.prefill_start_us,
                sequence.prefill_end_us,
                sequence.first_token_us,
                self._clock.now_us(),
                sequence.preemptions,
                timeline=sequence.timeline.moments,
            )
        )

    def take(self, started_us: int | None) -> StepOutput:
        """Return everything since the last call, with the load as it is now.

        Args:
            started_us: monotonic start of the step; None when there was no step.
        """
        now_us = self._clock.monotonic_us()
        if started_us is not None:
            self._step_us = now_us - started_us
        progress: list[Progress] = []
        tenants: list[TenantKv] | None = None
        if now_us >= self._progress_due_us:
            self._progress_due_us = now_us + PROGRESS_INTERVAL_US
            progress, tenants = self._take_progress(), self._take_tenants()
        news = self._deltas, self._prefilled, self._terminals
        prefixes = self._kv.events.take()
        output = StepOutput(*news, progress, self._load(), *prefixes, tenants)
        self._deltas, self._prefilled, self._terminals = [], [], []
        return output

    def _count(self, sequence: Sequence, reason: FinishReason) -> None:
        counters = self.counters
        counters.recomputed_tokens += sequence.recomputed_tokens
        match reason:
            case FinishReason.STOP:
                counters.stopped += 1
            case FinishReason.LENGTH:
                counters.length += 1
            case FinishReason.ABORT:
                counters.aborted += 1
            case _:
                counters.errors += 1

    def _take_progress(self) -> list[Progress]:
        running = self._planner.running
        places = sum(len(s.table.blocks) * self._kv.block_size - s.computed for s in running)
        self._stranded_tokens = places + self._kv.stranded_tokens()
        return [sequence.progress() for sequence in (*running, *self._planner.waiting)]

    def _take_tenants(self) -> list[TenantKv]:
        most = heapq.nlargest(MOST_TENANTS, self._kv.accounts(), key=lambda a: a.footprint)
        return [TenantKv(a.tenant, a.running, a.pinned, len(a.cached)) for a in most]

    def _load(self) -> Load:
        kv, planner, counters = self._kv, self._planner, self.counters
        counters.preemptions = planner.preemptions
        cache = kv.counters
        counters.prefix_queries, counters.prefix_hits = cache.prefix_queries, cache.prefix_hits
        counters.session_queries, counters.session_hits = cache.session_queries, cache.session_hits
        counters.evictions, counters.restored = cache.evictions, cache.restored
        return Load(
            running=len(planner.running),
            waiting=len(planner.waiting),
            pending_prefill_tokens=planner.pending_prefill_tokens(),
            free_blocks=kv.free_blocks,
            cached_blocks=kv.cached_blocks,
            held_blocks=kv.held_blocks,
            total_blocks=kv.total_blocks,
            stranded_tokens=self._stranded_tokens if kv.held_blocks else 0,
            step_us=self._step_us,
            step_tokens=self._step_tokens,
            counters=counters,
            pinned_blocks=kv.pinned_blocks,
            host_blocks=kv.host_blocks,
        )
