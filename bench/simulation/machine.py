"""The machine that the VTC artifact was run on, and what is measured of a run on it."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from weir_scheduler.rules.rules import Isolation, PoolRules, TenantRules
from weir_sim.cost.linear import LinearCost
from weir_sim.outcome import Outcome
from weir_sim.setup import Setup, WorkerSpec
from weir_sim.workload import SimRequest, Workload

POOL_TOKENS = 10_000
"""M of the artifact's launcher: tokens that the running batch may hold."""
ARTIFACT_A10G = LinearCost(
    step=22e-3, prefill_token=200e-6, prefill_position=1e-9, decode=180e-6, context_token=0.8e-6
)
"""Llama-2-7B in fp16 on one A10G: the data sheet (14 GB of weights and 0.5 MB of KV a position
at 600 GB/s) brought near the 777 tokens/s that the artifact has on the arena trace."""
PROMPT_WEIGHT, OUTPUT_WEIGHT = 1, 2


def artifact_machine(isolation: Isolation = Isolation.WEIGHTED, sample_s: float = 0.5) -> Setup:
    """One A10G with Llama-2-7B; a request is admitted with its whole output reserved."""
    base = Setup(
        workers=(
            WorkerSpec(
                kv_blocks=POOL_TOKENS // 16,
                block_size=16,
                max_batch_size=256,
                max_concurrent_requests=256,
                max_batch_tokens=POOL_TOKENS,
                max_step_tokens=2_048,
            ),
        ),
        cost=ARTIFACT_A10G,
        pool=PoolRules("artifact", isolation, "fifo"),
        sample_s=sample_s,
    )
    return replace(base, request=replace(base.request, alpha_millis=1000))


def steady(
    tenant_id: str,
    rate_rps: float,
    seconds: float,
    prompt_tokens: int = 256,
    output_tokens: int = 256,
    begin_s: float = 0.0,
) -> list[SimRequest]:
    """Requests of one tenant at equal gaps."""
    count = int(rate_rps * seconds)
    return [
        SimRequest(
            request_id=f"{tenant_id}-{begin_s:g}-{index}",
            arrival_s=begin_s + index / rate_rps,
            tenant_id=tenant_id,
            prompt_tokens=prompt_tokens,
            output_tokens=output_tokens,
        )
        for index in range(count)
    ]


def together(
    name: str, *streams: list[SimRequest], weights: Mapping[str, int] | None = None
) -> Workload:
    """Streams of several tenants as one load."""
    requests = sorted((one for stream in streams for one in stream), key=lambda one: one.arrival_s)
    tenants = {tenant: TenantRules(weight, 0, 0) for tenant, weight in (weights or {}).items()}
    return Workload(name, tuple(requests), tenants)


def tokens_s(outcome: Outcome) -> float:
    """Prompt and output tokens of completed requests, a second of the run."""
    done = sum(r.request.prompt_tokens + r.output_tokens for r in outcome.completed)
    return done / outcome.end_s


def first_tokens(outcome: Outcome) -> np.ndarray:
    """Times to the first token, seconds."""
    return np.array([r.ttft_s for r in outcome.records if r.ttft_s is not None])
