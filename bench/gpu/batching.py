"""Our engine against continuous batching in transformers: same sizes, random weights, greedy."""

import time
from importlib.util import find_spec
from statistics import median
from typing import Any

import torch

from bench.gpu.shape import ModelShape
from weir_core.clock import SystemClock
from weir_worker.engine.commands import Submit
from weir_worker.engine.cuda_runner import CudaRunner
from weir_worker.engine.decode_graphs import DecodeGraphs
from weir_worker.engine.decode_inputs import DecodeInputs
from weir_worker.engine.engine import Engine
from weir_worker.engine.graph_recorder import CudaGraphRecorder
from weir_worker.engine.intake import ServedModel
from weir_worker.engine.limits import StepLimits
from weir_worker.kv import KvManager
from weir_worker.models.llama import LlamaModel
from weir_worker.sampling import SamplingParams

_STREAMS, _PROMPT, _OUTPUT, _BLOCK, _RUNS = 64, 128, 128, 16, 3


class _NoText:
    """A tokenizer that costs nothing: the other side returns ids too."""

    def open(self, prompt_token_ids: Any) -> "_NoText":
        return self

    def push(self, token_id: int) -> str:
        return ""

    def flush(self) -> str:
        return ""


def ratio_transformers_cb(
    model: LlamaModel, shape: ModelShape, device: torch.device
) -> float | None:
    """Output tokens/s of ours over theirs, in turn; None without transformers."""
    if find_spec("transformers") is None:
        print("ratio_transformers_cb: transformers is not installed", flush=True)
        return None
    theirs = _transformers_model(shape, device)
    prompts = [[(7 * at + row) % 320 + 3 for at in range(_PROMPT)] for row in range(_STREAMS)]
    ratios = []
    for run in range(_RUNS + 1):
        ours_s = engine_seconds(model, prompts, device)
        theirs_s = _transformers_seconds(theirs, prompts)
        print(f"batching, run {run}: ours {ours_s:.2f} s, theirs {theirs_s:.2f} s", flush=True)
        ratios.append(theirs_s / ours_s)
    return round(median(ratios[1:]), 3)


def engine_seconds(
    model: LlamaModel, prompts: list[list[int]], device: torch.device, output: int = _OUTPUT
) -> float:
    """Seconds of our engine for all prompts."""
    context = max(len(prompt) for prompt in prompts) + output
    each = -(-context // _BLOCK)
    blocks = len(prompts) * each
    model.allocate_kv(blocks + 1, _BLOCK)
    runner = CudaRunner(model, device)
    if device.type == "cuda" and model.plans_decodes:
        inputs = DecodeInputs(len(prompts), each, _BLOCK, blocks, device)
        runner.use(DecodeGraphs(model, inputs, CudaGraphRecorder()))
    served = ServedModel("random", model.config.vocab_size, context + 1, ())
    limits = StepLimits(max_step_tokens=8192, max_running=len(prompts))
    engine = Engine(served, runner, KvManager(blocks, _BLOCK), _NoText(), limits, SystemClock())
    begun = time.perf_counter()
    for row, prompt in enumerate(prompts):
        engine.apply(
            Submit(
                request_id=f"r{row}",
                attempt=1,
                tenant="bench",
                prompt_token_ids=prompt,
                max_new_tokens=output,
                sampling=SamplingParams(temperature=0.0),
            )
        )
    while engine.has_work():
        engine.step()
    return time.perf_counter() - begun


def _transformers_model(shape: ModelShape, device: torch.device) -> Any:
    from transformers import AutoModelForCausalLM, LlamaConfig  # type: ignore[import-not-found]

    config = LlamaConfig(
        vocab_size=shape.vocabulary,
        hidden_size=shape.hidden,
        intermediate_size=shape.intermediate,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        head_dim=shape.head_dim,
        max_position_embeddings=shape.context,
    )
    with torch.device(device):
        # What needs no further package; with flash_attn there is a faster one.
        attention = "flash_attention_2" if find_spec("flash_attn") else "sdpa_paged"
        made = AutoModelForCausalLM.from_config(config, attn_implementation=attention)
    return made.to(torch.bfloat16).eval()


def _transformers_seconds(model: Any, prompts: list[list[int]]) -> float:
    from transformers import GenerationConfig

    config = GenerationConfig(
        max_new_tokens=_OUTPUT, do_sample=False, eos_token_id=-1, pad_token_id=0
    )
    begun = time.perf_counter()
    answers = model.generate_batch(inputs=prompts, generation_config=config)
    seconds = time.perf_counter() - begun
    made = sum(len(answer.generated_tokens) for answer in answers.values())
    if made != len(prompts) * _OUTPUT:
        raise RuntimeError(f"transformers made {made} tokens, not {len(prompts) * _OUTPUT}")
    return seconds
