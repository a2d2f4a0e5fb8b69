"""One decoder layer of the Llama family (Touvron et al. 2023) without its attention."""

from functools import partial

import torch
from torch.nn import functional

from weir_worker.models.family import GELU_TANH
from weir_worker.models.llama_config import LlamaConfig
from weir_worker.models.parts import Gate, Norm, Parts
from weir_worker.models.weights import Weights
from weir_worker.parallel.ranks import ALONE, Ranks


class LlamaLayer:
    """Norms, projections and gated MLP.

    Query, key and value come out of one product, gate and up of another.

    Attributes:
        attention_norm, qkv, output: around attention.
        mlp_norm, gate_up, gate, down: the MLP.
        plain: there is nothing else in it.
    """

    def __init__(
        self,
        config: LlamaConfig,
        weights: Weights,
        index: int,
        parts: Parts,
        ranks: Ranks = ALONE,
    ) -> None:
        """Take the layer's weights; `config` has the sizes of this rank's part."""
        self._ranks = ranks
        self._parts = parts
        prefix = f"model.layers.{index}."
        attention, mlp = f"{prefix}self_attn.", f"{prefix}mlp."
        self._heads = config.num_heads
        self._rotated = config.num_heads + config.num_kv_heads
        self._head_dim = config.head_dim
        norm = partial(_norm, parts, config, weights)
        self.attention_norm = norm(f"{prefix}input_layernorm")
        self._after_attention = self._after_mlp = None
        if config.member.sandwich_norms:
            self._after_attention = _norm(
                parts, config, weights, f"{prefix}post_attention_layernorm"
            )
            self.mlp_norm = norm(f"{prefix}pre_feedforward_layernorm")
            self._after_mlp = norm(f"{prefix}post_feedforward_layernorm")
        else:
            self.mlp_norm = norm(f"{prefix}post_attention_layernorm")
        gelu = config.member.activation == GELU_TANH
        self.gate: Gate = _gelu_mul if gelu else weights.gate(parts)
        self._head_norm = _head_norm(parts, config, weights, attention)
        self.qkv = weights.linear(parts, [f"{attention}{part}_proj" for part in "qkv"])
        self.output = weights.linear(parts, [f"{attention}o_proj"])
        self.gate_up = weights.linear(parts, [f"{mlp}gate_proj", f"{mlp}up_proj"])
        self.down = weights.linear(parts, [f"{mlp}down_proj"])
        self.plain = self._head_norm is None and self._after_mlp is None and ranks.size == 1

    def project(
        self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Rotated queries and keys, and values: each [rows, its heads, head_dim]."""
        qkv = self.qkv(self.attention_norm(x)).view(x.shape[0], -1, self._head_dim)
        qk, values = qkv[:, : self._rotated], qkv[:, self._rotated :]
        if self._head_norm is not None:
            qk = self._head_norm(qk)
        qk = self._parts.rotate(qk, cos, sin)
        return qk[:, : self._heads], qk[:, self._heads :], values

    def finish(self, x: torch.Tensor, attended: torch.Tensor) -> torch.Tensor:
        """Add attention's output and then the MLP's to the residual stream `x`, in place."""
        change = self._ranks.summed(self.output(attended))
        x.add_(change if self._after_attention is None else self._after_attention(change))
        change = self._ranks.summed(self.down(self.gate(self.gate_up(self.mlp_norm(x)))))
        return x.add_(change if self._after_mlp is None else self._after_mlp(change))


def _gelu_mul(gate_up: torch.Tensor) -> torch.Tensor:
    gate, up = gate_up.chunk(2, dim=1)
    return functional.gelu(gate, approximate="tanh").mul_(up)


def _norm(parts: Parts, config: LlamaConfig, weights: Weights, name: str) -> Norm:
    gain = weights.take(f"{name}.weight") + config.member.gain_offset
    return parts.norm(gain, config.hidden_size, config.rms_norm_eps)


def _head_norm(parts: Parts, config: LlamaConfig, weights: Weights, attention: str) -> Norm | None:
    """The norm of each query and key head; its gain is [rotated heads, head_dim]."""
    if not config.member.head_norms:
        return None
    offset = config.member.gain_offset
    query = (weights.take(f"{attention}q_norm.weight") + offset) * config.query_scale
    key = weights.take(f"{attention}k_norm.weight") + offset
    gain = torch.cat([query.repeat(config.num_heads, 1), key.repeat(config.num_kv_heads, 1)])
    return parts.norm(gain, config.head_dim, config.rms_norm_eps)
