"""Loads a torch model as a runtime."""

import logging
from typing import get_args

import torch

from weir_core.errors import InvalidField, Reason, WeirError
from weir_core.model_folder import ModelFolder
from weir_worker.attention import AttentionName
from weir_worker.engine.config import EngineConfig
from weir_worker.engine.cuda_runner import CudaRunner
from weir_worker.engine.decode_graphs import DecodeGraphs
from weir_worker.engine.decode_inputs import DecodeInputs
from weir_worker.engine.device_claim import claim_device
from weir_worker.engine.graph_recorder import CudaGraphRecorder
from weir_worker.engine.model_runner import ModelRunner
from weir_worker.engine.runtime import Runtime
from weir_worker.kernels.choice import Built, load_kernels
from weir_worker.kernels.library import Kernels
from weir_worker.kernels.parts import NativeParts
from weir_worker.kv.host_tier import HostTier
from weir_worker.models.llama import LlamaModel
from weir_worker.models.llama_config import LlamaConfig
from weir_worker.models.loader import load_model
from weir_worker.models.self_test import batch_invariance
from weir_worker.parallel.model import ParallelModel, load_parallel_model

logger = logging.getLogger(__name__)

_MIB = 1 << 20


def torch_runtime(config: EngineConfig, folder: ModelFolder, built: Built | None = None) -> Runtime:
    """Load the weights and test the model on this processor.

    Args:
        config: of the engine.
        folder: the model's.
        built: the build of the compiled kernels, where it has begun.

    Raises:
        WeirError: the weights, the device or the attention backend are not usable.
    """
    if config.threads:
        torch.set_num_threads(config.threads)
    device = _device(config.device)
    _check_host_memory(config, device)
    _claim_memory(config, folder, device)
    if config.kernels == "required":
        _check_kernels(folder, device)
    kernels = load_kernels(config.kernels, built) if device.type == "cpu" else None
    model = _load(config, folder, device, kernels)
    alone = isinstance(model, LlamaModel)
    runner = ModelRunner(model) if device.type == "cpu" else CudaRunner(model, device)

    def allocate(num_blocks: int, block_size: int) -> None:
        # One more than are given out: rows that only fill up a recorded step write there.
        _allocate(model, num_blocks + isinstance(runner, CudaRunner), block_size)
        if isinstance(runner, CudaRunner):
            rows = min(config.max_step_tokens, model.config.max_context)
            runner.warm_up(num_blocks, block_size, rows)
            if isinstance(model, LlamaModel):
                runner.use(_graphs(config, model, num_blocks, device))

    return Runtime(
        runner=runner,
        kv_bytes_per_token=model.config.kv_bytes_per_token,
        device=str(device),
        dtype=_dtype_name(model),
        attention_backend=model.attention_backend,
        batch_invariant=alone and device.type == "cpu" and batch_invariance(model),
        kernels=model.kernels if isinstance(model, LlamaModel) else "off",
        embeddings=alone,
        allocate=allocate,
        touch=model.touch_kv if isinstance(model, LlamaModel) else _touch_nothing,
        host=lambda memory_bytes: _host_tier(model, memory_bytes),
    )


def _touch_nothing(first: int, count: int) -> None:
    """Each rank's memory comes when it is written."""


def _check_host_memory(config: EngineConfig, device: torch.device) -> None:
    if config.kv_host_memory_bytes and device.type == "cpu":
        bound = "0 on cpu, where all KV is in the memory of the host: raise kv_memory_bytes"
        raise InvalidField("kv_host_memory_bytes", config.kv_host_memory_bytes, bound)


def _host_tier(model: LlamaModel | ParallelModel, memory_bytes: int) -> HostTier | None:
    if not memory_bytes or not isinstance(model, LlamaModel):
        return None
    try:
        return HostTier.within(model.kv_cache, memory_bytes)
    except (RuntimeError, MemoryError) as error:
        message = (
            f"{memory_bytes // _MIB} MiB of the host's memory for KV cannot be pinned: lower "
            "kv_host_memory_bytes"
        )
        raise WeirError(Reason.ENGINE_FAILED, message) from error


def _check_kernels(folder: ModelFolder, device: torch.device) -> None:
    """Refuse what the compiled kernels cannot serve, however well they were built."""
    if device.type != "cpu":
        raise InvalidField(
            "kernels", "required", f"auto or off on {device.type}: they are for CPUs"
        )
    model = LlamaConfig.from_folder(folder)
    refusal = NativeParts.refusal(model, model.hidden_size, model.intermediate_size)
    if refusal is not None:
        raise InvalidField("kernels", "required", f"auto or off for this model: {refusal}")


def _claim_memory(config: EngineConfig, folder: ModelFolder, device: torch.device) -> None:
    """Keep to this worker's part of the device; the claim lasts as long as the process."""
    share = config.device_memory_share
    if not share:
        return
    if device.type != "cuda":
        bound = f"0 on {device.type}, where kv_memory_bytes bounds the cache"
        raise InvalidField("device_memory_share", share, bound)
    name = str(getattr(torch.cuda.get_device_properties(device), "uuid", device))
    claim_device(name, config.model_name or folder.path.name, share)
    torch.cuda.set_per_process_memory_fraction(share, device)


def _load(
    config: EngineConfig, folder: ModelFolder, device: torch.device, kernels: Kernels | None
) -> LlamaModel | ParallelModel:
    dtype, attention = _dtype(config.dtype, device), _attention(config)
    if config.tensor_parallel_size == 1:
        return load_model(
            folder.path,
            device=str(device),
            dtype=dtype,
            attention=attention,
            block_size=config.block_size,
            kernels=kernels,
            precision=config.precision,
        )
    return load_parallel_model(
        folder.path,
        config.tensor_parallel_size,
        device=device,
        dtype=dtype,
        attention=attention,
        block_size=config.block_size,
        threads=config.threads,
    )


def _graphs(
    config: EngineConfig, model: LlamaModel, spare_block: int, device: torch.device
) -> DecodeGraphs | None:
    if not config.cuda_graphs or not model.plans_decodes:
        return None
    context = min(model.config.max_context, config.max_context or model.config.max_context)
    most_blocks = -(-context // config.block_size)
    rows = min(config.max_running, config.max_step_tokens)
    inputs = DecodeInputs(rows, most_blocks, config.block_size, spare_block, device)
    try:
        return DecodeGraphs(model, inputs, CudaGraphRecorder())
    except RuntimeError as error:
        logger.warning("decode steps are not recorded as CUDA graphs: %s", error)
        return None


def _dtype(name: str, device: torch.device) -> torch.dtype:
    if name == "auto":
        return torch.float32 if device.type == "cpu" else torch.bfloat16
    if device.type == "cpu" and name != "float32":
        bound = "auto or float32 on CPU, where half precision is a hundred times slower"
        raise InvalidField("dtype", name, bound)
    dtype: torch.dtype = getattr(torch, name)
    return dtype


def _dtype_name(model: LlamaModel | ParallelModel) -> str:
    if isinstance(model, LlamaModel) and model.int8_method is not None:
        return "int8"
    return str(model.dtype).removeprefix("torch.")


def _device(name: str) -> torch.device:
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise InvalidField("device", name, "auto, cpu, cuda or cuda:N") from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise InvalidField("device", name, "cpu: torch sees no CUDA device here")
    if device.type == "cuda":
        torch.cuda.set_device(device)  # Triton starts its kernels on the current device
    return device


def _attention(config: EngineConfig) -> AttentionName:
    name = config.attention_backend
    for known in get_args(AttentionName):
        if name == known:
            return known  # type: ignore[no-any-return]
    raise InvalidField("attention_backend", name, "one of " + ", ".join(get_args(AttentionName)))


def _allocate(model: LlamaModel | ParallelModel, num_blocks: int, block_size: int) -> None:
    try:
        model.allocate_kv(num_blocks, block_size)
    except (RuntimeError, MemoryError) as error:
        size = num_blocks * block_size * model.config.kv_bytes_per_token
        message = (
            f"no memory for a KV cache of {size // _MIB} MiB ({num_blocks} blocks of "
            f"{block_size} tokens): lower kv_memory_bytes or num_blocks"
        )
        raise WeirError(Reason.ENGINE_FAILED, message) from error
