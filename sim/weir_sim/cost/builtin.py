"""Cost models that come with the simulator."""

from weir_sim.cost.distserve import DistServeCost
from weir_sim.cost.linear import LinearCost

CPU_2_CORES = LinearCost(
    step=0.070,
    prefill_token=1.8e-3,
    prefill_position=4.0e-7,
    decode=4.1e-3,
    context_token=1.7e-6,
)
"""SmolLM2-135M in fp32 on 2 cores (AVX2): 13 tokens/s alone, about 80 from 16 streams of 128
tokens in and 64 out, 500 prompt tokens/s (bench/RESULTS.md)."""

A10G = LinearCost(
    step=0.031,
    prefill_token=2.6e-4,
    prefill_position=2.0e-9,
    decode=1.0e-4,
    context_token=2.3e-6,
)
"""Llama-2-7B on an A10G as in the artifact of VTC (OSDI 2024): about 780 tokens/s, prompt and
output together, from a pool of 10,000 KV tokens."""

H100 = LinearCost(
    step=0.0080,
    prefill_token=3.4e-5,
    prefill_position=1.5e-9,
    decode=2.0e-5,
    context_token=1.2e-8,
)
"""A model of 14B parameters on an H100: 8 ms of weights to read, 29,000 prompt tokens/s."""

H100_70B = LinearCost(
    step=0.030,
    prefill_token=5.2e-5,
    prefill_position=8.0e-9,
    decode=3.0e-4,
    context_token=1.0e-9,
)
"""Llama-2-70B on 8 H100, near Splitwise's table: prompts of 2,048 tokens in 0.15 s, 16 decodes
in 35 ms."""

OPT_13B = DistServeCost(
    prefill=(18.1, 0.102, 7.1e-6),
    small=(19.9, 6.3e-4, 0.039),
    large=(7.2, 5.8e-4, 0.158),
    threshold=95,
)
"""OPT-13B on one A100, as DistServe has fitted it."""
