"""Names and shapes of the tensors of the Llama family, in Hugging Face and in GGUF files."""

import re
from dataclasses import dataclass

_GGUF_TOP = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
_GGUF_BLOCK = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_BLOCK = re.compile(r"blk\.(\d+)\.(\w+)\.(weight|bias)")
_LAYER = re.compile(r"model\.layers\.(\d+)\.([\w.]+)\.(weight|bias)")


@dataclass(frozen=True, slots=True, kw_only=True)
class LlamaLayout:
    """The sizes from which every tensor's shape follows."""

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int

    def shape(self, name: str) -> tuple[int, ...] | None:
        """Shape of the tensor of that Hugging Face name; None if the family has none such."""
        if name in ("model.embed_tokens.weight", "lm_head.weight"):
            return (self.vocab_size, self.hidden_size)
        if name == "model.norm.weight":
            return (self.hidden_size,)
        match = _LAYER.fullmatch(name)
        if match is None or int(match[1]) >= self.num_layers:
            return None
        return self._layer_shape(match[2], match[3])

    def required(self) -> list[str]:
        """Names without which there is no model; biases, head norms and lm_head may be absent."""
        parts = [part for part in _GGUF_BLOCK.values() if not part.endswith(("q_norm", "k_norm"))]
        layers = [
            f"model.layers.{layer}.{part}.weight"
            for layer in range(self.num_layers)
            for part in parts
        ]
        return ["model.embed_tokens.weight", "model.norm.weight", *layers]

    def _layer_shape(self, part: str, kind: str) -> tuple[int, ...] | None:
        query, key = self.num_heads * self.head_dim, self.num_kv_heads * self.head_dim
        norms = {
            "input_layernorm": self.hidden_size,
            "post_attention_layernorm": self.hidden_size,
            "self_attn.q_norm": self.head_dim,
            "self_attn.k_norm": self.head_dim,
        }
        if part in norms:
            return (norms[part],) if kind == "weight" else None
        linears = {
            "self_attn.q_proj": (query, self.hidden_size),
            "self_attn.k_proj": (key, self.hidden_size),
            "self_attn.v_proj": (key, self.hidden_size),
            "self_attn.o_proj": (self.hidden_size, query),
            "mlp.gate_proj": (self.intermediate_size, self.hidden_size),
            "mlp.up_proj": (self.intermediate_size, self.hidden_size),
            "mlp.down_proj": (self.hidden_size, self.intermediate_size),
        }
        shape = linears.get(part)
        return shape if shape is None or kind == "weight" else shape[:1]


def hugging_face_name(gguf_name: str) -> str | None:
    """The Hugging Face name of a GGUF tensor; None if the family has none such."""
    if gguf_name in _GGUF_TOP:
        return _GGUF_TOP[gguf_name]
    match = _BLOCK.fullmatch(gguf_name)
    part = _GGUF_BLOCK.get(match[2]) if match else None
    return f"model.layers.{match[1]}.{part}.{match[3]}" if match and part else None
