"""Loads a model folder into the engine."""

import logging
from pathlib import Path

import torch

from weir_core.model_folder import ModelFolder
from weir_worker.attention import AttentionName
from weir_worker.kernels.library import Kernels
from weir_worker.kernels.parts import NativeParts
from weir_worker.models.llama import LlamaModel
from weir_worker.models.llama_config import LlamaConfig
from weir_worker.models.parts import Parts, TorchParts
from weir_worker.models.weights import Weights

logger = logging.getLogger(__name__)


def load_model(
    path: Path,
    *,
    device: str = "cpu",
    dtype: torch.dtype | None = None,
    attention: AttentionName = "auto",
    kernels: Kernels | None = None,
) -> LlamaModel:
    """Load a folder of the Llama family in Hugging Face form.

    Args:
        path: holds config.json, tokenizer.json and safetensors weights.
        device: `cpu`, or a torch device such as `cuda:0`.
        dtype: of weights and cache; by default float32 on CPU, where half precision is
            emulated and a hundred times slower, and bfloat16 elsewhere.
        attention: see `make_attention`.
        kernels: compute what they can on CPU; None: torch does.

    Raises:
        ModelFileError: a file is missing, damaged, or the model is of no supported kind.
        WeirError: the attention backend's package is missing.
    """
    target = torch.device(device)
    if dtype is None:
        dtype = torch.float32 if target.type == "cpu" else torch.bfloat16
    config = LlamaConfig.from_folder(ModelFolder(path), kv_dtype_bytes=dtype.itemsize)
    weights = Weights(path, config.layout, dtype, target)
    return LlamaModel(
        config,
        weights,
        device=target,
        dtype=dtype,
        attention=attention,
        parts=_parts(config, kernels if dtype == torch.float32 and target.type == "cpu" else None),
    )


def _parts(config: LlamaConfig, kernels: Kernels | None) -> Parts:
    if kernels is None:
        return TorchParts()
    reason = NativeParts.refusal(config, config.hidden_size, config.intermediate_size)
    if reason is not None:
        logger.warning("computing without compiled kernels: %s", reason)
        return TorchParts()
    return NativeParts(kernels)
