"""All layers of a model of the Llama family in one native call a step (`csrc/decoder.cpp`)."""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import torch

from weir_core.errors import InvalidField
from weir_worker.attention import AttentionPlan, PagedKvCache
from weir_worker.attention.native import NativeKvCache, NativePlan
from weir_worker.kernels.gate import NativeGate
from weir_worker.kernels.library import Kernels, check
from weir_worker.kernels.linear import FASTEST, NativeInt8Linear, NativeWideLinear
from weir_worker.kernels.norm import NativeNorm
from weir_worker.models.llama_config import LlamaConfig
from weir_worker.models.llama_layer import LlamaLayer
from weir_worker.models.rope import RotaryTable


class _Layer(ctypes.Structure):
    _fields_ = (
        *(
            (name, ctypes.c_void_p)
            for name in (
                "attention_gain",
                "mlp_gain",
                "qkv",
                "output",
                "gate_up",
                "down",
                "keys",
                "values",
                "cos",
                "sin",
            )
        ),
        ("window", ctypes.c_int64),
    )


class _Decoder(ctypes.Structure):
    _fields_ = (
        *(
            (name, ctypes.c_int64)
            for name in (
                "num_layers",
                "hidden",
                "heads",
                "kv_heads",
                "dim",
                "intermediate",
                "block_size",
                "half",
            )
        ),
        ("eps", ctypes.c_float),
        ("hadamard", ctypes.c_void_p),
        ("layers", ctypes.POINTER(_Layer)),
    )


class _Step(ctypes.Structure):
    _fields_ = (
        ("rows", ctypes.c_int64),
        ("positions", ctypes.c_void_p),
        ("slots", ctypes.c_void_p),
        ("tables", ctypes.c_void_p),
        ("tasks", ctypes.c_void_p),
        ("num_tasks", ctypes.c_int64),
        ("wanted", ctypes.c_void_p),
        ("num_wanted", ctypes.c_int64),
    )


_Linear = NativeInt8Linear | NativeWideLinear


@dataclass(frozen=True, slots=True)
class _LayerParts:
    """What a layer is made of, by the kernels that the native code calls.

    Attributes:
        norms: before attention, before the MLP.
        linears: to queries, keys and values; from what was attended; to gate and up; down.
        gate: between the last two.
    """

    norms: tuple[NativeNorm, NativeNorm]
    linears: tuple[_Linear, _Linear, _Linear, _Linear]
    gate: NativeGate

    @classmethod
    def of(cls, kernels: Kernels, layer: LlamaLayer) -> Self | None:
        """None if a part is computed by something else, or there are further ones."""
        norms = layer.attention_norm, layer.mlp_norm
        linears = layer.qkv, layer.output, layer.gate_up, layer.down
        ours = [norm for norm in norms if isinstance(norm, NativeNorm)]
        known = [linear for linear in linears if isinstance(linear, FASTEST[kernels.level])]
        if len(ours) < len(norms) or len(known) < len(linears):
            return None
        if not layer.plain or not isinstance(layer.gate, NativeGate):
            return None
        return cls((ours[0], ours[1]), (known[0], known[1], known[2], known[3]), layer.gate)


class NativeDecoder:
    """See `Decoder`. The bits are those of the parts called one after another."""

    def __init__(
        self, kernels: Kernels, config: LlamaConfig, layers: Sequence[_LayerParts]
    ) -> None:
        """Keep the parts; use `of`."""
        self._apply = kernels.library.weir_decode
        self._config = config
        self._parts = layers
        # Of the cache, which is not held here: the model frees it before it makes another.
        self._num_blocks = 0
        self._num_positions = 0
        self._layers = (_Layer * len(layers))()
        self._decoder = _Decoder(
            len(layers),
            config.hidden_size,
            config.num_heads,
            config.num_kv_heads,
            config.head_dim,
            config.intermediate_size,
            0,
            0,
            config.rms_norm_eps,
            layers[0].gate.hadamard_address,
            self._layers,
        )

    @classmethod
    def of(cls, kernels: Kernels, config: LlamaConfig, layers: Sequence[LlamaLayer]) -> Self | None:
        """For these layers; None if one of them has parts that the native code does not know."""
        found = [parts for layer in layers if (parts := _LayerParts.of(kernels, layer)) is not None]
        return cls(kernels, config, found) if len(found) == len(layers) else None

    def bind(self, cache: PagedKvCache, rotary: Sequence[RotaryTable]) -> None:
        """See `Decoder.bind`."""
        if not isinstance(cache, NativeKvCache):
            raise InvalidField("cache", type(cache).__name__, "of attention 'native'")
        dim = self._config.head_dim
        for table in rotary:
            for angles in (table.cos, table.sin):
                check(angles, "rotary", len(angles), dim)
        self._num_positions = min(len(table.cos) for table in rotary)
        self._num_blocks = cache.num_blocks
        self._decoder.block_size = cache.block_size
        self._decoder.half = cache.half
        for index, (parts, table) in enumerate(zip(self._parts, rotary, strict=True)):
            self._layers[index] = _Layer(
                *(norm.gain.data_ptr() for norm in parts.norms),
                *(linear.address for linear in parts.linears),
                cache.keys[index].data_ptr(),
                cache.values[index].data_ptr(),
                table.cos.data_ptr(),
                table.sin.data_ptr(),
                self._config.layers[index].window or 0,
            )

    def run(self, x: torch.Tensor, plan: AttentionPlan, wanted: torch.Tensor) -> torch.Tensor:
        """See `Decoder.run`."""
        if not isinstance(plan, NativePlan):
            raise InvalidField("plan", type(plan).__name__, "of attention 'native'")
        self._check(x, plan, wanted)
        rows = plan.rows
        step = _Step(
            plan.num_rows,
            rows.positions.data_ptr(),
            rows.slots.data_ptr(),
            plan.tables.data_ptr(),
            plan.tasks.data_ptr(),
            plan.tasks.shape[0],
            wanted.data_ptr(),
            len(wanted),
        )
        self._apply(
            ctypes.byref(self._decoder), ctypes.byref(step), x.data_ptr(), torch.get_num_threads()
        )
        return x[: len(wanted)]

    def _check(self, x: torch.Tensor, plan: NativePlan, wanted: torch.Tensor) -> None:
        rows, count = plan.num_rows, len(wanted)
        check(x, "x", rows, self._config.hidden_size)
        check(wanted, "wanted", count, dtype=torch.int64)
        if count and not 0 <= int(wanted[0]) <= int(wanted[-1]) < rows:
            raise InvalidField("wanted", wanted.tolist(), f"ascending rows below {rows}")
        if plan.num_blocks != self._num_blocks:
            raise InvalidField("plan", f"{plan.num_blocks} blocks", f"of {self._num_blocks}")
        if plan.last_position >= self._num_positions:
            bound = f"below {self._num_positions}"
            raise InvalidField("position", plan.last_position, bound)
