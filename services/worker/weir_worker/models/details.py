"""Everything that is known of a model before it is loaded."""

from pathlib import Path
from typing import Any

from weir_core.model_folder import ModelFileError, ModelFolder
from weir_worker.engine.null_model import KV_BYTES_PER_TOKEN, MODEL_TYPE
from weir_worker.models.check import CheckedModel, check_model
from weir_worker.models.gguf_config import hugging_face_config, layout_of
from weir_worker.models.gguf_file import open_gguf
from weir_worker.models.gguf_tokenizer import build_tokenizer
from weir_worker.models.memory_estimate import MemoryEstimate
from weir_worker.models.origins import tensor_origins
from weir_worker.models.summary import summarize


def model_details(path: Path, contexts: list[int]) -> dict[str, Any]:
    """Check a folder and describe it.

    Args:
        path: the folder.
        contexts: numbers of full contexts to estimate memory for.

    Raises:
        ModelFileError: a worker would refuse it.
    """
    folder = ModelFolder(path)
    if folder.architecture == MODEL_TYPE:
        return _null_details(folder)
    checked, summary = check_model(path), summarize(path)
    config = checked.config
    template = folder.chat_template
    return {
        "name": path.name,
        "path": str(path),
        "architecture": folder.architecture,
        "parameters": summary.parameters,
        "disk_bytes": summary.disk_bytes,
        "stored_as": checked.dtypes,
        "context": config.max_context,
        "vocabulary": config.vocab_size,
        "layers": config.num_layers,
        "windows": _windows(checked),
        "heads": config.num_heads,
        "kv_heads": config.num_kv_heads,
        "head_dim": config.head_dim,
        "kv_bytes_per_token": config.kv_bytes_per_token,
        "chat_template": template is not None,
        "bos_token_id": config.bos_token_id,
        "eos_token_ids": list(config.eos_token_ids),
        "tokenizer_fingerprint": folder.tokenizer_fingerprint,
        "memory": _memory(checked, contexts),
    }


def _null_details(folder: ModelFolder) -> dict[str, Any]:
    """Of the model that computes nothing: it has neither weights nor layers."""
    summary = summarize(folder.path)
    return {
        "name": summary.name,
        "path": str(folder.path),
        "architecture": summary.architecture,
        "parameters": summary.parameters,
        "disk_bytes": summary.disk_bytes,
        "context": summary.context,
        "vocabulary": folder.vocab_size,
        "kv_bytes_per_token": KV_BYTES_PER_TOKEN,
        "chat_template": folder.chat_template is not None,
        "eos_token_ids": list(folder.eos_token_ids),
        "tokenizer_fingerprint": folder.tokenizer_fingerprint,
    }


def gguf_details(path: Path) -> dict[str, Any]:
    """Check a GGUF file and describe it.

    Raises:
        ModelFileError: it cannot be converted.
    """
    file = open_gguf(path)
    config = hugging_face_config(file)
    tensor_origins(file, layout_of(config))
    build_tokenizer(path, file.metadata)
    kinds = [info.kind.name for info in file.tensors.values()]
    eos = config["eos_token_id"]
    if not kinds:
        raise ModelFileError(path, "it holds no tensors")
    return {
        "name": path.stem,
        "path": str(path),
        "architecture": config["model_type"],
        "parameters": sum(info.count for info in file.tensors.values()),
        "disk_bytes": path.stat().st_size,
        "stored_as": sorted(set(kinds), key=kinds.count, reverse=True),
        "context": config["max_position_embeddings"],
        "vocabulary": config["vocab_size"],
        "layers": config["num_hidden_layers"],
        "heads": config["num_attention_heads"],
        "kv_heads": config["num_key_value_heads"],
        "head_dim": config["head_dim"],
        "chat_template": isinstance(file.metadata.get("tokenizer.chat_template"), str),
        "bos_token_id": config["bos_token_id"],
        "eos_token_ids": eos,
    }


def _windows(checked: CheckedModel) -> dict[str, int]:
    """How many layers see so many tokens; `all` for those that see everything."""
    found: dict[str, int] = {}
    for kind in checked.config.layers:
        name = "all" if kind.window is None else str(kind.window)
        found[name] = found.get(name, 0) + 1
    return found


def _memory(checked: CheckedModel, contexts: list[int]) -> dict[str, Any]:
    estimate, length = MemoryEstimate.of(checked), checked.config.max_context
    return {
        "weights_fp32_bytes": estimate.fp32,
        "weights_half_bytes": estimate.half,
        "weights_int8_bytes": estimate.int8,
        "kv_fp32_bytes": {str(count): estimate.kv(count, length) for count in contexts},
    }
