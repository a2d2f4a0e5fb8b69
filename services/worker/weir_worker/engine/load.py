"""Gauges and counters of the engine, sent with every step."""

import msgspec


class Counters(msgspec.Struct, array_like=True, gc=False):
    """Totals since the engine's start, tokens unless said otherwise.

    Attributes:
        steps, failed_steps, preemptions: events.
        prefill_tokens, decode_tokens: rows computed, recomputed ones included.
        prefill_us, decode_us: time of steps, shared out by their rows.
        recomputed_tokens: rows computed again after a pre-emption.
        generated_tokens: sampled.
        stopped, length, aborted, errors, rejected: attempts by finish reason.
        prefix_queries, prefix_hits, session_queries, session_hits, evictions, restored: see
            `CacheCounters`.
    """

    steps: int = 0
    failed_steps: int = 0
    preemptions: int = 0
    prefill_tokens: int = 0
    decode_tokens: int = 0
    prefill_us: int = 0
    decode_us: int = 0
    recomputed_tokens: int = 0
    generated_tokens: int = 0
    stopped: int = 0
    length: int = 0
    aborted: int = 0
    errors: int = 0
    rejected: int = 0
    prefix_queries: int = 0
    prefix_hits: int = 0
    session_queries: int = 0
    session_hits: int = 0
    evictions: int = 0
    restored: int = 0


class Load(msgspec.Struct, array_like=True):
    """Gauges after a step.

    Attributes:
        running, waiting: sequences; pre-empted ones wait.
        pending_prefill_tokens: tokens to be computed before all of them decode.
        free_blocks, cached_blocks, held_blocks, total_blocks: KV blocks; the first three
            sum to the last.
        stranded_tokens: places in held blocks that no token fills yet, sampled with progress.
        pinned_blocks: held blocks that sessions alone hold, and that yield to requests.
        host_blocks: blocks of sessions in the memory of the host.
        step_us: duration of the last step.
        step_tokens: rows of the last step.
    """

    running: int = 0
    waiting: int = 0
    pending_prefill_tokens: int = 0
    free_blocks: int = 0
    cached_blocks: int = 0
    held_blocks: int = 0
    total_blocks: int = 0
    stranded_tokens: int = 0
    step_us: int = 0
    step_tokens: int = 0
    counters: Counters = msgspec.field(default_factory=Counters)
    pinned_blocks: int = 0
    host_blocks: int = 0
