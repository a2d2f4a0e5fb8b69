"""Names and shapes of the tensors of the Llama family, in Hugging Face and in GGUF files."""

import re
from dataclasses import dataclass

from weir_worker.models.family import FamilyMember

_GGUF_TOP = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
_GGUF_LAYER = {
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_PRE_NORMS = {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm"}
_SANDWICH_NORMS = {
    "attn_norm": "input_layernorm",
    "post_attention_norm": "post_attention_layernorm",
    "ffn_norm": "pre_feedforward_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}
_HEAD_NORMS = {"attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm"}
_BLOCK = re.compile(r"blk\.(\d+)\.(\w+)\.(weight|bias)")
_LAYER = re.compile(r"model\.layers\.(\d+)\.([\w.]+)\.(weight|bias)")


@dataclass(frozen=True, slots=True, kw_only=True)
class LlamaLayout:
    """The sizes from which every tensor's shape follows, and the parts that a layer has."""

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    member: FamilyMember

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
        """Names without which there is no model; lm_head and most biases may be absent."""
        weights = [f"{part}.weight" for part in self._parts().values()]
        if self.member.qkv_bias:
            weights += [f"self_attn.{part}_proj.bias" for part in "qkv"]
        layers = [
            f"model.layers.{layer}.{weight}"
            for layer in range(self.num_layers)
            for weight in weights
        ]
        return ["model.embed_tokens.weight", "model.norm.weight", *layers]

    def hugging_face_name(self, gguf_name: str) -> str | None:
        """The Hugging Face name of a GGUF tensor; None if the model has none such."""
        if gguf_name in _GGUF_TOP:
            return _GGUF_TOP[gguf_name]
        match = _BLOCK.fullmatch(gguf_name)
        part = self._parts().get(match[2]) if match else None
        return f"model.layers.{match[1]}.{part}.{match[3]}" if match and part else None

    def _parts(self) -> dict[str, str]:
        """GGUF name -> Hugging Face name of the parts of every layer."""
        norms = _SANDWICH_NORMS if self.member.sandwich_norms else _PRE_NORMS
        return _GGUF_LAYER | norms | (_HEAD_NORMS if self.member.head_norms else {})

    def _layer_shape(self, part: str, kind: str) -> tuple[int, ...] | None:
        if part not in self._parts().values():
            return None
        query, key = self.num_heads * self.head_dim, self.num_kv_heads * self.head_dim
        linears = {
            "self_attn.q_proj": (query, self.hidden_size),
            "self_attn.k_proj": (key, self.hidden_size),
            "self_attn.v_proj": (key, self.hidden_size),
            "self_attn.o_proj": (self.hidden_size, query),
            "mlp.gate_proj": (self.intermediate_size, self.hidden_size),
            "mlp.up_proj": (self.intermediate_size, self.hidden_size),
            "mlp.down_proj": (self.hidden_size, self.intermediate_size),
        }
        if part in linears:
            return linears[part] if kind == "weight" else linears[part][:1]
        width = self.head_dim if part in _HEAD_NORMS.values() else self.hidden_size
        return (width,) if kind == "weight" else None


def is_norm(name: str) -> bool:
    """Whether the tensor of that Hugging Face name is a norm's gain."""
    return name.endswith("norm.weight")
