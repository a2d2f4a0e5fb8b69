"""How much of the GPU's memory bandwidth decoding uses, and of its arithmetic prefill."""

import time
from collections.abc import Callable
from statistics import median

import torch

from bench.gpu.shape import ModelShape
from weir_worker.engine.cuda_runner import CudaRunner
from weir_worker.engine.decode_graphs import DecodeGraphs
from weir_worker.engine.decode_inputs import DecodeInputs
from weir_worker.engine.graph_recorder import CudaGraphRecorder
from weir_worker.models.base import ForwardBatch, SequenceSlice
from weir_worker.models.llama import LlamaModel
from weir_worker.sampling import SamplingParams, SamplingState

# Bytes/s and dense bfloat16 FLOP/s of the makers' data sheets, by a part of the device's name.
_SHEETS = {
    "H200": (4.8e12, 989e12),
    "H100 NVL": (3.9e12, 835e12),
    "H100 PCIe": (2.0e12, 756e12),
    "H100": (3.35e12, 989e12),
    "A100-SXM4-80GB": (2.039e12, 312e12),
    "A100": (1.555e12, 312e12),
    "L40S": (0.864e12, 362e12),
    "L4": (0.3e12, 121e12),
    "B200": (8.0e12, 2250e12),
}
_BLOCK = 16
_STREAMS, _CONTEXT, _PROMPT, _PROMPTS = 64, 2048, 2048, 4
_STEPS, _RUNS = 50, 3


def sheet(device: torch.device) -> tuple[float, float] | None:
    """Peak bytes/s and FLOP/s; None: not in the table."""
    name = torch.cuda.get_device_name(device)
    return next((peak for part, peak in _SHEETS.items() if part in name), None)


def speeds(model: LlamaModel, shape: ModelShape, device: torch.device) -> dict[str, float | None]:
    """Shares of the data sheet, and what they were computed from."""
    blocks = _STREAMS * (-(-(_CONTEXT + _STEPS + 2) // _BLOCK))
    model.allocate_kv(blocks + 1, _BLOCK)
    peak = sheet(device)
    decode_s, prefill_s = decode_seconds(model, blocks, device), prefill_seconds(model, device)
    element = model.dtype.itemsize
    read = shape.parameters * element + _STREAMS * _CONTEXT * model.config.kv_bytes_per_token
    flop = _prefill_flop(shape)
    return {
        "decode_bandwidth_share": None if peak is None else round(read / decode_s / peak[0], 3),
        "prefill_flop_share": None if peak is None else round(flop / prefill_s / peak[1], 3),
        "decode_tok_s_64": round(_STREAMS / decode_s, 1),
        "prefill_tok_s": round(_PROMPTS * _PROMPT / prefill_s, 1),
    }


def decode_seconds(model: LlamaModel, blocks: int, device: torch.device) -> float:
    """Seconds of a greedy step of 64 streams after 2,048 tokens, graphs where they can be."""
    runner = CudaRunner(model, device)
    if model.plans_decodes:
        most = -(-(_CONTEXT + _STEPS + 2) // _BLOCK)
        inputs = DecodeInputs(_STREAMS, most, _BLOCK, blocks, device)
        runner.use(DecodeGraphs(model, inputs, CudaGraphRecorder()))
    states = [SamplingState(SamplingParams(temperature=0.0)) for _ in range(_STREAMS)]
    each = blocks // _STREAMS

    def run() -> None:
        tokens = [1] * _STREAMS
        for step in range(_STEPS):
            slices = [
                SequenceSlice(_CONTEXT + step, 1, range(row * each, (row + 1) * each))
                for row in range(_STREAMS)
            ]
            tokens = runner.run(ForwardBatch(tokens, slices, range(_STREAMS)), states).tokens

    return _median_seconds(run) / _STEPS


def prefill_seconds(model: LlamaModel, device: torch.device) -> float:
    """Seconds of one pass over four prompts of 2,048 tokens."""
    each = -(-_PROMPT // _BLOCK)
    slices = [
        SequenceSlice(0, _PROMPT, range(row * each, (row + 1) * each)) for row in range(_PROMPTS)
    ]
    rows = _PROMPTS * _PROMPT
    batch = ForwardBatch([7 * at % 320 for at in range(rows)], slices, [rows - 1])

    def run() -> None:
        model.forward(batch)
        torch.cuda.synchronize(device)

    return _median_seconds(run)


def _prefill_flop(shape: ModelShape) -> float:
    """Products with the weights, without the output projection, and causal attention."""
    layers = shape.parameters - shape.hidden * shape.vocabulary
    pairs = _PROMPT * (_PROMPT + 1) / 2
    attention = 4 * shape.layers * shape.heads * shape.head_dim * pairs
    return _PROMPTS * (2 * layers * _PROMPT + attention)


def _median_seconds(run: Callable[[], None]) -> float:
    run()  # compiles kernels
    seconds = []
    for _ in range(_RUNS):
        begun = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - begun)
    return median(seconds)
