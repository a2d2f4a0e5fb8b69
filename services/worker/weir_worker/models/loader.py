"""Loads a model folder into the engine."""

import logging
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch

from weir_core.model_folder import ModelFolder
from weir_worker.attention import AttentionName
from weir_worker.kernels.library import Kernels
from weir_worker.kernels.parts import NativeParts
from weir_worker.models.int8_cache import Int8Cache
from weir_worker.models.llama import LlamaModel
from weir_worker.models.llama_config import LlamaConfig
from weir_worker.models.parts import Parts, TorchParts
from weir_worker.models.precision import Precision, uses_int8
from weir_worker.models.rotated_weights import RotatedWeights
from weir_worker.models.weights import Weights
from weir_worker.parallel.ranks import ALONE, Ranks
from weir_worker.parallel.shards import local_config

logger = logging.getLogger(__name__)


def load_model(
    path: Path,
    *,
    device: str = "cpu",
    dtype: torch.dtype | None = None,
    attention: AttentionName = "auto",
    block_size: int = 16,
    ranks: Ranks = ALONE,
    kernels: Kernels | None = None,
    precision: Precision = "fp32",
) -> LlamaModel:
    """Load a folder of the Llama family in Hugging Face form.

    Args:
        path: holds config.json, tokenizer.json and safetensors weights.
        device: `cpu`, or a torch device such as `cuda:0`.
        dtype: of weights and cache; by default float32 on CPU, where half precision is
            emulated and a hundred times slower, and bfloat16 elsewhere.
        attention: see `make_attention`.
        block_size: tokens of a KV block, for which the attention backend is chosen.
        ranks: of a tensor parallel model, this rank's part is loaded.
        kernels: compute what they can on CPU; None: torch does.
        precision: of the linear layers on CPU, see `uses_int8`; elsewhere `dtype` is theirs.

    Raises:
        ModelFileError: a file is missing, damaged, or the model is of no supported kind.
        InvalidField: the model cannot be divided by the ranks, or has no 8-bit form.
        WeirError: the attention backend cannot serve it there.
    """
    target = torch.device(device)
    if dtype is None:
        dtype = torch.float32 if target.type == "cpu" else torch.bfloat16
    config = LlamaConfig.from_folder(ModelFolder(path), kv_dtype_bytes=dtype.itemsize)
    local = local_config(config, ranks)
    parts = _parts(local, kernels if dtype == torch.float32 and target.type == "cpu" else None)
    int8 = uses_int8(precision, path, config, parts, target, ranks)
    kv_dtype = parts.int8_kv_dtype(attention) if int8 else dtype
    model = partial(
        LlamaModel,
        replace(local, kv_dtype_bytes=kv_dtype.itemsize),
        device=target,
        kv_dtype=kv_dtype,
        dtype=dtype,
        attention=attention,
        block_size=block_size,
        ranks=ranks,
        parts=parts,
    )
    if not int8:
        return model(Weights(path, config.layout, dtype, target, ranks))
    with Int8Cache(path, str(parts.int8_method)) as cache:
        return model(RotatedWeights(path, config, cache))


def _parts(config: LlamaConfig, kernels: Kernels | None) -> Parts:
    if kernels is None:
        return TorchParts()
    reason = NativeParts.refusal(config, config.hidden_size, config.intermediate_size)
    if reason is not None:
        logger.warning("computing without compiled kernels: %s", reason)
        return TorchParts()
    return NativeParts(kernels)
