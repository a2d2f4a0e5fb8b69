"""What a GGUF file's metadata say about the model, in the form of a config.json."""

import math
from typing import Any

from weir_core.model_folder import ModelFileError
from weir_worker.models.family import FAMILY, GGUF_FAMILY, FamilyMember
from weir_worker.models.gguf_file import GgufFile
from weir_worker.models.gguf_rope import rope_scaling
from weir_worker.models.llama_layout import LlamaLayout

_SPECIAL = {"bos": "bos", "eos": "eos", "unknown": "unk", "padding": "pad"}


def hugging_face_config(file: GgufFile) -> dict[str, Any]:
    """The content of config.json.

    Raises:
        ModelFileError: the architecture or a part of it is not supported, or a size is absurd.
    """
    member = _member(file)
    arch = str(file.metadata["general.architecture"])
    theta = _positive(file, f"{arch}.rope.freq_base", 10_000.0)
    sizes = _sizes(file, arch)
    return {
        "architectures": [member.class_name],
        "model_type": member.model_type,
        **sizes,
        "rms_norm_eps": _positive(file, f"{arch}.attention.layer_norm_rms_epsilon", 1e-5),
        "rope_theta": theta,
        "rope_scaling": rope_scaling(file, arch, theta),
        **_window(file, arch),
        **(_gemma(sizes) if member.scaled_embedding else {}),
        member.activation_field: member.activation,
        "tie_word_embeddings": "output.weight" not in file.tensors,
        "bos_token_id": _token_id(file, "bos"),
        "eos_token_id": _eos_token_ids(file),
        "dtype": "float32",
    }


def special_tokens(file: GgufFile) -> dict[str, str]:
    """`bos_token`, `eos_token` and kin with their texts, the content of tokenizer_config.json."""
    tokens = file.metadata.get("tokenizer.ggml.tokens", [])
    found: dict[str, str] = {}
    for gguf_name, name in _SPECIAL.items():
        index = file.metadata.get(f"tokenizer.ggml.{gguf_name}_token_id")
        if isinstance(index, int) and 0 <= index < len(tokens):
            found[f"{name}_token"] = tokens[index]
    return found


def layout_of(config: dict[str, Any]) -> LlamaLayout:
    """The tensor layout that a config.json demands."""
    return LlamaLayout(
        vocab_size=config["vocab_size"],
        hidden_size=config["hidden_size"],
        intermediate_size=config["intermediate_size"],
        num_layers=config["num_hidden_layers"],
        num_heads=config["num_attention_heads"],
        num_kv_heads=config["num_key_value_heads"],
        head_dim=config["head_dim"],
        member=FAMILY[config["model_type"]],
    )


def _member(file: GgufFile) -> FamilyMember:
    """The architecture; of those called `llama`, Mistral's are the ones with a window."""
    arch = file.metadata.get("general.architecture")
    if not isinstance(arch, str) or arch not in GGUF_FAMILY:
        raise ModelFileError(
            file.path,
            f"architecture {arch!r:.80} is not supported; supported are {', '.join(GGUF_FAMILY)}",
        )
    if arch == "llama" and file.metadata.get("llama.attention.sliding_window"):
        return FAMILY["mistral"]
    return GGUF_FAMILY[arch]


def _window(file: GgufFile, arch: str) -> dict[str, Any]:
    """The sliding window, for the layers that have one."""
    key = f"{arch}.attention.sliding_window"
    if not file.metadata.get(key):
        return {}
    if arch not in ("llama", "gemma3"):
        raise ModelFileError(file.path, f"{key}: a sliding window of {arch} is not built")
    return {"sliding_window": _integer(file, key)}


def _gemma(sizes: dict[str, int]) -> dict[str, Any]:
    """What Gemma's GGUF files leave out, as in llama.cpp's loader: gemma3.

    Its largest member, told by its 62 layers, scales queries by width over heads.
    """
    largest = sizes["num_hidden_layers"] == 62
    scale = sizes["hidden_size"] // sizes["num_attention_heads"] if largest else sizes["head_dim"]
    return {
        "query_pre_attn_scalar": scale,
        "rope_local_base_freq": 10_000.0,
        "sliding_window_pattern": 6,
    }


def _sizes(file: GgufFile, arch: str) -> dict[str, int]:
    hidden = _integer(file, f"{arch}.embedding_length")
    heads = _integer(file, f"{arch}.attention.head_count")
    head_dim = _integer(file, f"{arch}.attention.key_length", hidden // heads)
    kv_heads = _integer(file, f"{arch}.attention.head_count_kv", heads)
    if heads % kv_heads:
        raise ModelFileError(file.path, f"{heads} heads are no multiple of {kv_heads} KV heads")
    rotated = file.metadata.get(f"{arch}.rope.dimension_count", head_dim)
    if rotated != head_dim or head_dim % 2:
        raise ModelFileError(file.path, f"{rotated} of {head_dim} head dimensions are rotated")
    if "token_embd.weight" not in file.tensors:
        raise ModelFileError(file.path, "tensor token_embd.weight is missing")
    return {
        "vocab_size": file.tensors["token_embd.weight"].shape[0],
        "hidden_size": hidden,
        "intermediate_size": _integer(file, f"{arch}.feed_forward_length"),
        "num_hidden_layers": _integer(file, f"{arch}.block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": head_dim,
        "max_position_embeddings": _integer(file, f"{arch}.context_length"),
    }


def _eos_token_ids(file: GgufFile) -> list[int]:
    ids = [_token_id(file, name) for name in ("eos", "eot")]
    return list(dict.fromkeys(token for token in ids if token is not None))


def _token_id(file: GgufFile, name: str) -> int | None:
    key = f"tokenizer.ggml.{name}_token_id"
    token = file.metadata.get(key)
    rows = file.tensors["token_embd.weight"].shape[0]
    if token is None or (isinstance(token, int) and 0 <= token < rows):
        return token
    raise ModelFileError(file.path, f"{key} is {token!r:.80}; it must be 0 to {rows - 1}")


def _positive(file: GgufFile, key: str, default: float) -> float:
    value = file.metadata.get(key, default)
    if not isinstance(value, int | float) or not 0 < value < math.inf:
        raise ModelFileError(file.path, f"{key} is {value!r:.80}; it must be a positive number")
    return float(value)


def _integer(file: GgufFile, key: str, default: int | None = None) -> int:
    value = file.metadata.get(key, default)
    if not isinstance(value, int) or not 1 <= value <= 1 << 24:
        problem = f"{key} is {value!r:.80}; it must be an integer in [1, 2^24]"
        raise ModelFileError(file.path, problem)
    return value
