"""Loads a torch model as a runtime."""

from typing import get_args

import torch

from weir_core.errors import InvalidField, Reason, WeirError
from weir_core.model_folder import ModelFolder
from weir_worker.attention import AttentionName
from weir_worker.engine.config import EngineConfig
from weir_worker.engine.model_runner import ModelRunner
from weir_worker.engine.runtime import Runtime
from weir_worker.kernels.choice import Built, load_kernels
from weir_worker.models.llama import LlamaModel
from weir_worker.models.loader import load_model
from weir_worker.models.self_test import batch_invariance

_MIB = 1 << 20


def torch_runtime(
    config: EngineConfig, folder: ModelFolder, built: Built | None = None
) -> Runtime:
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
    kernels = load_kernels(config.kernels, built) if device.type == "cpu" else None
    model = load_model(
        folder.path, device=str(device), attention=_attention(config), kernels=kernels
    )
    invariant = device.type == "cpu" and batch_invariance(model)

    def allocate(num_blocks: int, block_size: int) -> None:
        _allocate(model, num_blocks, block_size)

    return Runtime(
        runner=ModelRunner(model),
        kv_bytes_per_token=model.config.kv_bytes_per_token,
        device=str(device),
        dtype=str(model.dtype).removeprefix("torch."),
        attention_backend=model.attention_backend,
        batch_invariant=invariant,
        allocate=allocate,
    )


def _device(name: str) -> torch.device:
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise InvalidField("device", name, "auto, cpu, cuda or cuda:N") from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise InvalidField("device", name, "cpu: torch sees no CUDA device here")
    return device


def _attention(config: EngineConfig) -> AttentionName:
    name = config.attention_backend
    for known in get_args(AttentionName):
        if name == known:
            return known  # type: ignore[no-any-return]
    raise InvalidField("attention_backend", name, "one of " + ", ".join(get_args(AttentionName)))


def _allocate(model: LlamaModel, num_blocks: int, block_size: int) -> None:
    try:
        model.allocate_kv(num_blocks, block_size)
    except (RuntimeError, MemoryError) as error:
        size = num_blocks * block_size * model.config.kv_bytes_per_token
        message = (
            f"no memory for a KV cache of {size // _MIB} MiB ({num_blocks} blocks of "
            f"{block_size} tokens): lower kv_memory_bytes or num_blocks"
        )
        raise WeirError(Reason.ENGINE_FAILED, message) from error
