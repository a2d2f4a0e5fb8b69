"""Cost models of known machines, by name."""

from collections.abc import Mapping

from weir_sim.cost.linear import LinearCost

A10G_7B = LinearCost(
    step=24e-3, prefill_token=220e-6, prefill_position=1e-9, decode=200e-6, context_token=0.87e-6
)
"""Llama-2-7B in fp16 on one A10G, from its data sheet: 14 GB of weights at 600 GB/s a step,
0.5 MB of KV at that rate for each position, 14 GFLOP a prompt token at half of 125 TFLOP/s. With
10,000 tokens of KV it makes the 780 tokens/s that the VTC artifact measured."""

REFERENCES: Mapping[str, LinearCost] = {"a10g-7b": A10G_7B}
