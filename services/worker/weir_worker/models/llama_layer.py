"""One decoder layer of the Llama family (Touvron et al. 2023) without its attention."""

import torch
from torch.nn import functional

from weir_worker.linear import Linear, make_linear
from weir_worker.models.family import GELU_TANH
from weir_worker.models.llama_config import LlamaConfig
from weir_worker.models.rms_norm import RmsNorm
from weir_worker.models.rope import rotate
from weir_worker.models.weights import Weights


class LlamaLayer:
    """Norms, projections and gated MLP.

    Query, key and value come out of one product, gate and up of another.
    """

    def __init__(self, config: LlamaConfig, weights: Weights, index: int) -> None:
        prefix = f"model.layers.{index}."
        attention, mlp = f"{prefix}self_attn.", f"{prefix}mlp."
        self._heads = config.num_heads
        self._rotated = config.num_heads + config.num_kv_heads
        self._head_dim = config.head_dim
        self._attention_norm = _norm(config, weights, f"{prefix}input_layernorm")
        self._after_attention = self._after_mlp = None
        if config.member.sandwich_norms:
            self._after_attention = _norm(config, weights, f"{prefix}post_attention_layernorm")
            self._mlp_norm = _norm(config, weights, f"{prefix}pre_feedforward_layernorm")
            self._after_mlp = _norm(config, weights, f"{prefix}post_feedforward_layernorm")
        else:
            self._mlp_norm = _norm(config, weights, f"{prefix}post_attention_layernorm")
        self._gelu = config.member.activation == GELU_TANH
        self._head_norm = _head_norm(config, weights, attention)
        self._qkv = _joined(weights, [f"{attention}{part}_proj" for part in "qkv"])
        self._output = _joined(weights, [f"{attention}o_proj"])
        self._gate_up = _joined(weights, [f"{mlp}gate_proj", f"{mlp}up_proj"])
        self._down = _joined(weights, [f"{mlp}down_proj"])

    def project(
        self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Rotated queries and keys, and values: each [rows, its heads, head_dim]."""
        qkv = self._qkv(self._attention_norm(x)).view(x.shape[0], -1, self._head_dim)
        qk, values = qkv[:, : self._rotated], qkv[:, self._rotated :]
        if self._head_norm is not None:
            qk = self._head_norm(qk)
        qk = rotate(qk, cos, sin)
        return qk[:, : self._heads], qk[:, self._heads :], values

    def finish(self, x: torch.Tensor, attended: torch.Tensor) -> torch.Tensor:
        """Add attention's output and then the MLP's to the residual stream `x`, in place."""
        change = self._output(attended)
        x.add_(change if self._after_attention is None else self._after_attention(change))
        gate, up = self._gate_up(self._mlp_norm(x)).chunk(2, dim=1)
        gate = functional.gelu(gate, approximate="tanh") if self._gelu else functional.silu(gate)
        change = self._down(gate.mul_(up))
        return x.add_(change if self._after_mlp is None else self._after_mlp(change))


def _joined(weights: Weights, parts: list[str]) -> Linear:
    biases = [f"{part}.bias" for part in parts]
    bias = weights.joined(biases) if biases[0] in weights else None
    return make_linear(weights.joined([f"{part}.weight" for part in parts]), bias)


def _norm(config: LlamaConfig, weights: Weights, name: str) -> RmsNorm:
    gain = weights.take(f"{name}.weight") + config.member.gain_offset
    return RmsNorm(gain, config.hidden_size, config.rms_norm_eps)


def _head_norm(config: LlamaConfig, weights: Weights, attention: str) -> RmsNorm | None:
    """The norm of each query and key head; its gain is [rotated heads, head_dim]."""
    if not config.member.head_norms:
        return None
    offset = config.member.gain_offset
    query = (weights.take(f"{attention}q_norm.weight") + offset) * config.query_scale
    key = weights.take(f"{attention}k_norm.weight") + offset
    gain = torch.cat([query.repeat(config.num_heads, 1), key.repeat(config.num_kv_heads, 1)])
    return RmsNorm(gain, config.head_dim, config.rms_norm_eps)
