"""Turns a model of the Llama family so that its activations have no outliers.

The method of QuaRot (Ashkboos et al. 2024) and SpinQuant (Liu et al. 2024): the model computes
the same, but what enters its linear layers is spread evenly over the channels and can be
rounded to few bits.
"""

import hashlib
import re
from collections.abc import Callable

import torch

from weir_worker.linear import Hadamard
from weir_worker.models.llama_config import LlamaConfig

_LAYER = re.compile(r"(model\.layers\.\d+\.)([\w.]+)\.(weight|bias)")
# What reads the residual stream, and the norm between.
_READERS = {
    "self_attn.q_proj": "input_layernorm",
    "self_attn.k_proj": "input_layernorm",
    "self_attn.v_proj": "input_layernorm",
    "mlp.gate_proj": "post_attention_layernorm",
    "mlp.up_proj": "post_attention_layernorm",
}
_WRITERS = ("self_attn.o_proj", "mlp.down_proj")
_TOP = ("model.embed_tokens.weight", "lm_head.weight")
# Of what enters down_proj: this one is applied at every step, and larger ones cost more time.
_MLP_ORDER = 128
# Rows of the vocabulary turned at a time. What lies between is then memory that was used before,
# not new pages for each product; many more turns would wait for each other's threads.
_CHUNK = 4096

Take = Callable[[str], torch.Tensor]


class Rotation:
    """The model's tensors in turned coordinates, in which every norm has gain 1.

    With H the normalised Hadamard matrix of a width and s fixed signs, the residual stream x
    becomes x s H, the value v of a head v H, and what enters down_proj m H. All is folded into
    the weights, but for the last: the model has to apply `mlp` before down_proj.
    """

    def __init__(self, config: LlamaConfig) -> None:
        """Choose the matrices; the same on every machine."""
        self.mlp = Hadamard(config.intermediate_size, _MLP_ORDER)
        self._residual = Hadamard(config.hidden_size)
        self._head = Hadamard(config.head_dim)
        self._head_dim = config.head_dim
        self._signs = _signs(config.hidden_size)

    @staticmethod
    def refusal(config: LlamaConfig) -> str | None:
        """Why a model cannot be turned; None if it can."""
        if config.member.sandwich_norms or config.member.gain_offset:
            return f"norms as those of {config.member.model_type} stand in the way"
        return None

    def turned(self, name: str, take: Take) -> torch.Tensor:
        """The tensor of that name, fp32, from the original ones, which `take` returns."""
        layer = _LAYER.fullmatch(name)
        if layer is None:
            return self._top(name, take)
        if layer[2].endswith("layernorm"):
            return torch.ones_like(take(name))
        return self._turned(layer[1], layer[2], layer[3], take).float()

    def output(self, name: str, take: Take) -> torch.Tensor:
        """The projection to logits, whose original has that name."""
        return self._vocabulary(take(name), take("model.norm.weight").double())

    def hidden(self, turned: torch.Tensor, gain: torch.Tensor) -> torch.Tensor:
        """What enters the projection to logits, fp64 [..., hidden_size], in the model's own
        coordinates and with the gain of its last norm."""
        return self._residual.inverse(turned.double()) * self._signs * gain

    def _top(self, name: str, take: Take) -> torch.Tensor:
        if name in _TOP:
            return self._vocabulary(take(name), torch.ones((), dtype=torch.float64))
        return torch.ones_like(take(name))

    def _vocabulary(self, weight: torch.Tensor, gain: torch.Tensor) -> torch.Tensor:
        """weight * gain, a row for each token, turned; fp32."""
        turned = torch.empty(weight.shape)
        for first in range(0, len(weight), _CHUNK):
            rows = weight[first : first + _CHUNK].double()
            turned[first : first + _CHUNK] = self._across(rows * gain)
        return turned

    def _turned(self, prefix: str, part: str, kind: str, take: Take) -> torch.Tensor:
        tensor = take(f"{prefix}{part}.{kind}").double()
        if kind == "weight":
            tensor = self._input_turned(prefix, part, tensor, take)
        if part == "self_attn.v_proj":
            heads = tensor.view(-1, self._head_dim, *tensor.shape[1:]).movedim(1, -1)
            return self._head(heads).movedim(-1, 1).reshape(tensor.shape)
        if part in _WRITERS:
            return self._across(tensor.movedim(0, -1)).movedim(-1, 0)
        return tensor

    def _input_turned(
        self, prefix: str, part: str, weight: torch.Tensor, take: Take
    ) -> torch.Tensor:
        if part in _READERS:
            return self._across(weight * take(f"{prefix}{_READERS[part]}.weight").double())
        if part == "self_attn.o_proj":
            heads = weight.view(len(weight), -1, self._head_dim)
            return self._head(heads).view(weight.shape)
        return self.mlp(weight) if part == "mlp.down_proj" else weight

    def _across(self, rows: torch.Tensor) -> torch.Tensor:
        """Vectors of the residual stream's width, turned."""
        return self._residual(rows * self._signs)


def _signs(width: int) -> torch.Tensor:
    digest = hashlib.shake_256(f"residual stream of {width}".encode()).digest(width)
    return torch.tensor([1.0 if byte & 1 else -1.0 for byte in digest], dtype=torch.float64)
