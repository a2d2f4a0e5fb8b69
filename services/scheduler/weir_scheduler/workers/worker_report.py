"""What a worker says about its present state."""

from dataclasses import dataclass, field

from weir_scheduler.workers.attempt_key import AttemptKey


@dataclass(frozen=True, slots=True)
class AttemptUsage:
    """Tokens of one attempt so far, or in the end.

    Attributes:
        prompt_tokens: prompt tokens whose KV was computed or hit.
        cached_prompt_tokens: of these, read from the cache.
        completion_tokens: sampled.
    """

    prompt_tokens: int = 0
    cached_prompt_tokens: int = 0
    completion_tokens: int = 0


@dataclass(frozen=True, slots=True)
class AttemptProgress:
    """An attempt in the worker: its tokens and the KV blocks that it holds."""

    key: AttemptKey
    usage: AttemptUsage
    kv_blocks: int


@dataclass(frozen=True, slots=True)
class AttemptEnd:
    """An attempt that left the worker. `failed`: by a fault of the engine."""

    key: AttemptKey
    usage: AttemptUsage
    failed: bool = False


@dataclass(frozen=True, slots=True)
class WorkerLoad:
    """Load of a worker; block counts, requests, tokens and bytes as in `WorkerLoad` of the API.

    `told` is the whole message as it came, for those who ask for it: nothing here reads it.
    """

    free_kv_blocks: int = 0
    cached_kv_blocks: int = 0
    held_kv_blocks: int = 0
    pinned_kv_blocks: int = 0
    running_requests: int = 0
    waiting_requests: int = 0
    pending_prefill_tokens: int = 0
    step_age_us: int = 0
    step_time_us: int = 0
    kv_bytes_used: int = 0
    device_utilisation_millis: int = -1
    device_memory_used_bytes: int = 0
    device_memory_total_bytes: int = 0
    report_time_us: int = 0
    prefix_queries_total: int = 0
    prefix_hits_total: int = 0
    preemptions_total: int = 0
    told: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class WorkerReport:
    """One report: load, the whole set of attempts, and what changed since the last one.

    Attributes:
        load: present state.
        running: every attempt that runs or waits in the worker.
        finished: attempts that ended since the last report.
        prefix_blocks_added: hashes findable from now on.
        prefix_blocks_removed: hashes no longer findable.
        draining: the worker itself takes no new attempts.
    """

    load: WorkerLoad
    running: tuple[AttemptProgress, ...] = ()
    finished: tuple[AttemptEnd, ...] = ()
    prefix_blocks_added: tuple[bytes, ...] = field(default=(), repr=False)
    prefix_blocks_removed: tuple[bytes, ...] = field(default=(), repr=False)
    draining: bool = False
