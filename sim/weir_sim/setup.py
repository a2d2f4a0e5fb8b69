"""What a run consists of: fleet, configuration, and what happens to the fleet."""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from weir_scheduler.dispatch.bounds import Bounds
from weir_scheduler.placement.placer import Placer
from weir_scheduler.rules.rules import Isolation, PoolRules, RequestRules, TenantRules
from weir_scheduler.scaling.scaling_rules import ScalingRules
from weir_scheduler.scheduler import Scheduler
from weir_sim.cost.model import CostModel
from weir_sim.workload import MODEL

PlacerFactory = Callable[[random.Random, int], Placer]
"""Makes the placement policy from the run's source of lots and the tokens of a prefix hash."""

_WEEK_US = 7 * 86_400 * 1_000_000


class Batching(StrEnum):
    """How a worker fills its steps.

    Attributes:
        CHUNKED: decodes first, then several partial prefills: the product's worker.
        PREFILL_FIRST: whole prompts before any decode, as in vLLM 0.2.
        DECODE_FIRST: decodes, and whole prompts beside them, without chunks.
        STATIC: a batch is prefilled, then decodes until its last sequence ends.
    """

    CHUNKED = "chunked"
    PREFILL_FIRST = "prefill_first"
    DECODE_FIRST = "decode_first"
    STATIC = "static"


@dataclass(frozen=True, slots=True)
class SplitSpec:
    """Prefill and decode on engines of their own, behind one registration.

    The KV of a prompt moves when it is computed; meanwhile both engines go on.

    Attributes:
        prefill: engines that compute prompts and sample the first token.
        decode: engines that do the rest.
        transfer_s: time to move the KV of any prompt.
        transfer_token_s: and of each of its tokens.
    """

    prefill: int = 1
    decode: int = 1
    transfer_s: float = 0.001
    transfer_token_s: float = 1e-6


@dataclass(frozen=True, slots=True)
class WorkerSpec:
    """One worker.

    Attributes:
        kv_blocks: size of its KV cache.
        block_size: tokens of a block.
        max_batch_size: requests at once in the batch.
        max_batch_tokens: summed estimated cost of them, tokens.
        max_step_tokens: tokens that one step computes.
        max_concurrent_requests: requests at once.
        cache_blocks: blocks that the prefix cache keeps at most; None for all that are free,
            0 for no cache.
        max_step_s: predicted time that prefill may stretch a step with decodes to; 0 for 2.2 times
            that of the decodes alone when the last prompt joined them, and 50 ms in any case for
            prompts of at most `max_step_tokens`, as the product's worker has it; `inf` for no
            bound.
        batching: how steps are filled.
        start_s: when it registers first.
        max_context_tokens: prompt and output; 0 for no bound of its own.
        dedicated_tenant_id: empty for any tenant.
        model: public name of what it serves.
        speed: of its steps, relative to the cost model.
        split: engines apart for prefill and decode, each with the memory and the bounds that
            are given here; None for one engine.
    """

    kv_blocks: int = 4_096
    block_size: int = 16
    max_batch_size: int = 64
    max_batch_tokens: int = 1_000_000
    max_step_tokens: int = 512
    max_concurrent_requests: int = 64
    cache_blocks: int | None = None
    max_step_s: float = 0.0
    batching: Batching = Batching.CHUNKED
    start_s: float = 0.0
    max_context_tokens: int = 0
    dedicated_tenant_id: str = ""
    model: str = MODEL
    speed: float = 1.0
    split: SplitSpec | None = None


class FleetChange(StrEnum):
    """What happens to a worker."""

    LOSE = "lose"
    RETURN = "return"
    DRAIN = "drain"
    UNDRAIN = "undrain"


@dataclass(frozen=True, slots=True)
class FleetEvent:
    """A change of one worker, by its index in `Setup.workers`.

    LOSE ends its engine and its stream at once, all KV is gone; RETURN registers an empty one
    under the same id.
    """

    at_s: float
    worker: int
    change: FleetChange


@dataclass(frozen=True, slots=True)
class TenantLimits:
    """What the limiter lets pass of one tenant; 0 for no limit.

    Attributes:
        requests_per_minute: rate, and as much at once.
        tokens_per_minute: prompt and longest answer, what is not used comes back.
        concurrency: requests in the system.
    """

    requests_per_minute: int = 0
    tokens_per_minute: int = 0
    concurrency: int = 0


@dataclass(frozen=True, slots=True)
class AutoscaleSpec:
    """An autoscaler beside the fleet.

    Attributes:
        worker: what it starts.
        rules: bounds, targets and hysteresis, as in the product.
        interval_s: between two decisions.
        startup_s: from the decision to a worker's registration.
    """

    worker: WorkerSpec
    rules: ScalingRules
    interval_s: float = 5.0
    startup_s: float = 30.0


@dataclass(frozen=True)
class Setup:
    """Everything about a run but its requests.

    Attributes:
        workers: the fleet.
        cost: time of their steps.
        pool: isolation and policy; of every model.
        seed: of all lots.
        report_interval_s: between two reports of a worker; 0 for one after every step.
        report_coalesce_s: after the start or end of an attempt a report is made within this
            time; None: every interval alone. The product's are 1 and 0.02.
        report_delay_s: from a report's making to its arrival: signals are that stale.
        link_s: from scheduler to worker and back to the gateway, each way.
        tenant: policy of tenants that the workload does not name.
        request: parameters of every request.
        bounds: of waits and counts.
        placer: placement policy; None for the product's.
        scheduler: the state machine; takes the arguments of `Scheduler`.
        local_increments: count dispatched attempts before a report names them, as the product
            does. Off, placement sees the last report alone: an experiment.
        events: what happens to workers.
        limits: of the limiter in front, by tenant, `*` for the others; empty for no limiter.
        autoscale: adds and retires workers; None for a fixed fleet.
        sample_s: between two points of `Outcome.service`.
        keep_gaps: keep every time between two tokens for `Outcome.gaps_s`.
        checks: recount every worker's memory after each flight of steps; slow.
        until_s: end of the run if it has not ended before; None to run until all has ended.
    """

    workers: tuple[WorkerSpec, ...]
    cost: CostModel
    pool: PoolRules = field(
        default_factory=lambda: PoolRules(name="sim", isolation=Isolation.WEIGHTED, policy="fifo")
    )
    seed: int = 0
    report_interval_s: float = 0.1
    report_coalesce_s: float | None = None
    report_delay_s: float = 0.0
    link_s: float = 0.0
    tenant: TenantRules = field(
        default_factory=lambda: TenantRules(weight=1, max_running_requests=0, max_queued_requests=0)
    )
    request: RequestRules = field(
        default_factory=lambda: RequestRules(
            alpha_millis=500,
            batch_wait_us=0,
            queue_timeout_us=_WEEK_US,
            max_queued_requests=1_000_000,
        )
    )
    bounds: Bounds = field(
        default_factory=lambda: Bounds(
            max_queued_requests=1_000_000,
            max_queued_per_tenant=1_000_000,
            default_deadline_us=_WEEK_US,
            default_deadline_batch_us=_WEEK_US,
            # Positions are announced to nobody here.
            announce_us=_WEEK_US,
        )
    )
    placer: PlacerFactory | None = None
    scheduler: Callable[..., Scheduler] = Scheduler
    local_increments: bool = True
    events: tuple[FleetEvent, ...] = ()
    limits: Mapping[str, TenantLimits] = field(default_factory=dict)
    autoscale: AutoscaleSpec | None = None
    sample_s: float = 1.0
    keep_gaps: bool = False
    checks: bool = False
    until_s: float | None = None
