"""A seeded random Llama that is made in milliseconds: the model of all fast tests.

2 layers, hidden 64, 4 query heads over 2 KV heads of 16, 320 tokens (3 special, 256 bytes, 61
merges) and a ChatML template. Its text is noise, but every part is real: two folders made
with the same arguments are equal to the byte. Special tokens are never the likeliest, so that
greedy generation runs to its token limit.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import numpy.typing as npt
from safetensors.numpy import save_file
from tokenizers import AddedToken, Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE

from weir_worker.models.family import FAMILY

SPECIAL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
BOS_TOKEN_ID = 1
EOS_TOKEN_ID = 2
VOCAB_SIZE = 320
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{% if message['role'] not in ['system', 'user', 'assistant'] %}"
    "{{ raise_exception('unknown role') }}{% endif %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)

_HIDDEN, _INTERMEDIATE, _HEADS, _KV_HEADS, _HEAD_DIM = 64, 128, 4, 2, 16
_WORDS = (
    *("", "the", "and", "ing", "ion", "ent", "her", "for", "you", "was", "there", "which"),
    *("are", "his", "not", "all", "one", "out", "can", "had", "but", "what", "were", "when"),
)

Tensors = dict[str, npt.NDArray[np.float32]]


def write_tiny_llama(
    folder: Path,
    *,
    seed: int = 0,
    max_context: int = 512,
    num_layers: int = 2,
    overrides: Mapping[str, Any] | None = None,
) -> Path:
    """Write the model in Hugging Face form.

    Args:
        folder: made if it is missing.
        seed: of the weights; another seed is another model with the same tokenizer.
        max_context: `max_position_embeddings`.
        num_layers: decoder layers.
        overrides: fields of config.json to change, such as `model_type` or `rope_scaling`;
            tensors are made to fit.

    Returns:
        `folder`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    config = tiny_config(max_context, num_layers) | dict(overrides or {})
    (folder / "config.json").write_text(json.dumps(config, indent=2))
    special = {"bos_token": SPECIAL_TOKENS[BOS_TOKEN_ID], "eos_token": SPECIAL_TOKENS[EOS_TOKEN_ID]}
    (folder / "tokenizer_config.json").write_text(json.dumps(special))
    (folder / "chat_template.jinja").write_text(CHAT_TEMPLATE)
    tiny_tokenizer().save(str(folder / "tokenizer.json"))
    save_file(tiny_tensors(config, seed), folder / "model.safetensors", {"format": "pt"})
    return folder


def write_tiny_gguf(
    path: Path,
    *,
    seed: int = 0,
    max_context: int = 512,
    num_layers: int = 2,
    kind: gguf.GGMLQuantizationType = gguf.GGMLQuantizationType.F32,
    metadata: Mapping[str, str | float] | None = None,
    skip: tuple[str, ...] = (),
    extra: Tensors | None = None,
) -> Path:
    """Write the same model as a GGUF file of architecture `llama`.

    Args:
        path: of the file.
        seed, max_context, num_layers: as for `write_tiny_llama`.
        kind: how matrices are quantised; vectors stay fp32.
        metadata: entries to add or replace, such as `general.architecture`.
        skip: GGUF names of tensors to leave out.
        extra: fp32 tensors to add, by GGUF name.

    Returns:
        `path`.
    """
    config = tiny_config(max_context, num_layers)
    entries = dict(metadata or {})
    writer = gguf.GGUFWriter(path, str(entries.pop("general.architecture", "llama")))
    _add_sizes(writer, config)
    _add_tokenizer(writer, str(entries.pop("tokenizer.ggml.pre", "gpt-2")))
    for key, value in entries.items():
        if isinstance(value, str):
            writer.add_string(key, value)
        else:
            writer.add_float32(key, value)
    for name, tensor in tiny_tensors(config, seed).items():
        gguf_name = _gguf_name(name)
        if gguf_name not in skip:
            _add_tensor(writer, gguf_name, _interleaved(name, tensor), kind)
    for name, tensor in (extra or {}).items():
        writer.add_tensor(name, tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def tiny_config(max_context: int = 512, num_layers: int = 2) -> dict[str, Any]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": VOCAB_SIZE,
        "hidden_size": _HIDDEN,
        "intermediate_size": _INTERMEDIATE,
        "num_hidden_layers": num_layers,
        "num_attention_heads": _HEADS,
        "num_key_value_heads": _KV_HEADS,
        "head_dim": _HEAD_DIM,
        "max_position_embeddings": max_context,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10_000.0,
        "hidden_act": "silu",
        "tie_word_embeddings": False,
        "bos_token_id": BOS_TOKEN_ID,
        "eos_token_id": EOS_TOKEN_ID,
        "dtype": "float32",
    }


def tiny_tokenizer() -> Tokenizer:
    tokens, merges = _vocabulary()
    vocabulary = {token: index for index, token in enumerate(tokens)}
    tokenizer = Tokenizer(BPE(vocab=vocabulary, merges=merges, fuse_unk=False))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_tokens([AddedToken(t, special=True, normalized=False) for t in SPECIAL_TOKENS])
    return tokenizer


def tiny_tensors(config: Mapping[str, Any], seed: int = 0) -> Tensors:
    """Random weights by Hugging Face name, of the shapes and parts that the config demands."""
    rng = np.random.default_rng(seed)
    hidden, head_dim = config["hidden_size"], config["head_dim"]
    query, key = (
        head_dim * config["num_attention_heads"],
        head_dim * config["num_key_value_heads"],
    )
    qwen, tensors = config["model_type"].startswith("qwen"), Tensors()
    member = FAMILY[config["model_type"]]

    def add(name: str, *shape: int, bias: bool = False) -> None:
        scale = shape[-1] ** -0.5
        tensors[f"{name}.weight"] = (rng.standard_normal(shape) * scale).astype(np.float32)
        if bias:
            tensors[f"{name}.bias"] = rng.standard_normal(shape[0]).astype(np.float32)

    def add_norm(name: str, width: int) -> None:
        gain = rng.uniform(0.5, 1.5, width).astype(np.float32)
        tensors[f"{name}.weight"] = gain - np.float32(member.gain_offset)

    add("model.embed_tokens", config["vocab_size"], hidden)
    for layer in range(config["num_hidden_layers"]):
        prefix = f"model.layers.{layer}"
        biased = config["model_type"] == "qwen2" or bool(config.get("attention_bias"))
        add_norm(f"{prefix}.input_layernorm", hidden)
        add_norm(f"{prefix}.post_attention_layernorm", hidden)
        for part, width in (("q", query), ("k", key), ("v", key)):
            add(f"{prefix}.self_attn.{part}_proj", width, hidden, bias=biased)
        add(f"{prefix}.self_attn.o_proj", hidden, query, bias=biased and not qwen)
        if member.sandwich_norms:
            add_norm(f"{prefix}.pre_feedforward_layernorm", hidden)
            add_norm(f"{prefix}.post_feedforward_layernorm", hidden)
        if member.head_norms:
            add_norm(f"{prefix}.self_attn.q_norm", head_dim)
            add_norm(f"{prefix}.self_attn.k_norm", head_dim)
        for part in ("gate", "up"):
            add(f"{prefix}.mlp.{part}_proj", config["intermediate_size"], hidden)
        add(f"{prefix}.mlp.down_proj", hidden, config["intermediate_size"])
    add_norm("model.norm", hidden)
    if not config["tie_word_embeddings"]:
        add("lm_head", config["vocab_size"], hidden)
        tensors["lm_head.weight"] *= 2.0
        tensors["lm_head.weight"][: len(SPECIAL_TOKENS)] *= 0.01
    return tensors


def _vocabulary() -> tuple[list[str], list[tuple[str, str]]]:
    """Tokens in order of id, and merges; in the byte alphabet of GPT-2, where a space is Ġ."""
    tokens = [*SPECIAL_TOKENS, *sorted(pre_tokenizers.ByteLevel.alphabet())]
    merges: dict[tuple[str, str], None] = {}
    for word in _WORDS:
        spelled = f"Ġ{word}"
        for end in range(1, len(spelled)):
            merges[spelled[:end], spelled[end]] = None
    chosen = list(merges)[: VOCAB_SIZE - len(tokens)]
    return tokens + [left + right for left, right in chosen], chosen


def _add_sizes(writer: gguf.GGUFWriter, config: Mapping[str, Any]) -> None:
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_rope_freq_base(config["rope_theta"])
    writer.add_rope_dimension_count(config["head_dim"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])


def _add_tokenizer(writer: gguf.GGUFWriter, pre: str) -> None:
    tokens, merges = _vocabulary()
    control, normal = int(gguf.TokenType.CONTROL), int(gguf.TokenType.NORMAL)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(tokens)
    writer.add_token_types([control if t in SPECIAL_TOKENS else normal for t in tokens])
    writer.add_token_merges([f"{left} {right}" for left, right in merges])
    writer.add_bos_token_id(BOS_TOKEN_ID)
    writer.add_eos_token_id(EOS_TOKEN_ID)
    writer.add_add_bos_token(False)
    writer.add_chat_template(CHAT_TEMPLATE)


def _add_tensor(
    writer: gguf.GGUFWriter,
    name: str,
    tensor: npt.NDArray[np.float32],
    kind: gguf.GGMLQuantizationType,
) -> None:
    if tensor.ndim == 1 or kind == gguf.GGMLQuantizationType.F32:
        writer.add_tensor(name, tensor)
    else:
        writer.add_tensor(name, gguf.quants.quantize(tensor, kind), raw_dtype=kind)


def _gguf_name(name: str) -> str:
    top = {
        "model.embed_tokens.weight": "token_embd.weight",
        "model.norm.weight": "output_norm.weight",
        "lm_head.weight": "output.weight",
    }
    if name in top:
        return top[name]
    parts = {
        "input_layernorm": "attn_norm",
        "post_attention_layernorm": "ffn_norm",
        "self_attn.o_proj": "attn_output",
    }
    _, _, layer, rest = name.split(".", 3)
    part, ending = rest.rsplit(".", 1)
    short = parts.get(part) or part.replace("self_attn.", "attn_").replace("mlp.", "ffn_")
    return f"blk.{layer}.{short.removesuffix('_proj')}.{ending}"


def _interleaved(name: str, tensor: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """GGUF's order of the rotated pairs of query and key rows: pair i in rows 2i and 2i + 1."""
    if "q_proj" not in name and "k_proj" not in name:
        return tensor
    halves = tensor.reshape(-1, 2, _HEAD_DIM // 2, *tensor.shape[1:])
    return np.ascontiguousarray(halves.swapaxes(1, 2)).reshape(tensor.shape)
