"""Rotary position embedding (RoFormer, Su et al. 2021), half-split as in Hugging Face."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

_DEFAULT_THETA = 10_000.0


class UnsupportedRope(ValueError):
    """The model scales its rotary frequencies in a way that is not built."""


@dataclass(frozen=True, slots=True)
class RopeParameters:
    """Base and scaling of the rotary frequencies.

    Attributes:
        theta: base of the geometric series of wavelengths.
        kind: `default`, `linear` (positions divided by `factor`) or `llama3` (only
            wavelengths beyond `original_context / high` are stretched).
    """

    theta: float = _DEFAULT_THETA
    kind: str = "default"
    factor: float = 1.0
    low: float = 1.0
    high: float = 4.0
    original_context: int = 8192

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> "RopeParameters":
        """Read `rope_parameters`, or `rope_theta` and `rope_scaling`, of a config.json.

        Raises:
            UnsupportedRope: another kind of scaling, a rotation of a part of the head, or a
                number that is none.
        """
        scaling = config.get("rope_parameters") or config.get("rope_scaling") or {}
        if not isinstance(scaling, Mapping):
            raise UnsupportedRope(f"rope_scaling is {scaling!r:.80}; it must be an object")
        kind = scaling.get("rope_type") or scaling.get("type") or "default"
        if kind not in ("default", "linear", "llama3"):
            raise UnsupportedRope(f"rope type {kind!r:.80}; built are default, linear and llama3")
        if (config.get("partial_rotary_factor") or 1.0) != 1.0:
            raise UnsupportedRope("partial_rotary_factor; the whole head must be rotated")
        return cls(
            theta=_number({**config, **scaling}, "rope_theta", _DEFAULT_THETA),
            kind=kind,
            factor=_number(scaling, "factor", 1.0 if kind == "default" else None),
            low=_number(scaling, "low_freq_factor", 1.0),
            high=_number(scaling, "high_freq_factor", 4.0),
            original_context=int(_number(scaling, "original_max_position_embeddings", 8192)),
        )

    def inverse_frequencies(self, head_dim: int) -> torch.Tensor:
        """Radians per position, fp32 [head_dim / 2]."""
        exponents = torch.arange(0, head_dim, 2, dtype=torch.int64).float() / head_dim
        frequencies = 1.0 / (self.theta**exponents)
        if self.kind == "linear":
            return frequencies / self.factor
        return self._stretch_long_waves(frequencies) if self.kind == "llama3" else frequencies

    def _stretch_long_waves(self, frequencies: torch.Tensor) -> torch.Tensor:
        """Llama 3.1: long waves by `factor`, short ones not, those between in proportion."""
        turns = self.original_context * frequencies / (2 * math.pi)
        share = ((turns - self.low) / (self.high - self.low)).clamp(0, 1)
        return (1 - share) * frequencies / self.factor + share * frequencies


def _number(values: Mapping[str, Any], field: str, default: float | None) -> float:
    value = default if values.get(field) is None else values[field]
    if not isinstance(value, int | float) or not 0 < value < 1e30:
        raise UnsupportedRope(f"{field} is {value!r:.80}; it must be a positive number")
    return float(value)


class RotaryTable:
    """Cosines and sines of every position up to the context length.

    Attributes:
        cos, sin: [max_context, head_dim]; the sines of the first half are negated.
    """

    def __init__(
        self,
        parameters: RopeParameters,
        head_dim: int,
        max_context: int,
        device: torch.device,
        dtype: torch.dtype,
    ) -> None:
        waves = parameters.inverse_frequencies(head_dim)
        angles = torch.outer(torch.arange(max_context).float(), waves).repeat(1, 2)
        self.cos = angles.cos().to(device, dtype)
        self.sin = angles.sin().to(device, dtype)
        self.sin[:, : head_dim // 2].neg_()

    def at(self, positions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Cosines and signed sines of [rows] positions, each [rows, 1, head_dim]."""
        return self.cos[positions].unsqueeze(1), self.sin[positions].unsqueeze(1)


def rotate(x: torch.Tensor, cos: torch.Tensor, signed_sin: torch.Tensor) -> torch.Tensor:
    """Rotate [rows, heads, head_dim] by the angles of its rows; returns a new tensor.

    The two halves of a head are the two coordinates; the sine of the first half is negated.
    """
    half = x.shape[-1] // 2
    rotated = x * cos
    rotated[..., :half].addcmul_(x[..., half:], signed_sin[..., :half])
    rotated[..., half:].addcmul_(x[..., :half], signed_sin[..., half:])
    return rotated
