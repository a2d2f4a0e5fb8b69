"""The compiled kernels as functions over tensors.

A function checks what would make native code read or write outside a tensor. All tensors are
contiguous on CPU, fp32 unless said.
"""

import ctypes
from pathlib import Path

import torch

from weir_core.errors import InvalidField
from weir_worker.kernels.build import KernelsUnavailable
from weir_worker.kernels.processor import Level

_POINTER, _SIZE, _FLOAT, _INT = ctypes.c_void_p, ctypes.c_int64, ctypes.c_float, ctypes.c_int
_SIGNATURES: dict[str, list[type]] = {
    "weir_pack_fp32": [_POINTER, _SIZE, _SIZE, _POINTER, _INT],
    "weir_linear_fp32": [*[_POINTER] * 3, *[_SIZE] * 3, _POINTER, _INT],
    "weir_pack_int8": [_POINTER, _SIZE, _SIZE, _POINTER, _POINTER, _INT],
    "weir_linear_int8": [_POINTER, _POINTER, _SIZE, _POINTER, _INT],
    "weir_pack_w8a16": [_POINTER, _SIZE, _SIZE, _POINTER, _INT],
    "weir_linear_w8a16": [_POINTER, _POINTER, _SIZE, _POINTER, _INT],
    "weir_decode": [_POINTER, _POINTER, _POINTER, _INT],
    "weir_rms_norm": [_POINTER, _POINTER, _FLOAT, _SIZE, _SIZE, _POINTER, _INT],
    "weir_silu_mul": [_POINTER, _SIZE, _SIZE, _POINTER, _POINTER, _INT],
    "weir_rotate": [_POINTER, _SIZE, _POINTER, _POINTER, *[_SIZE] * 3, _INT],
    "weir_store": [
        *[_POINTER, _SIZE] * 2,
        _POINTER,
        *[_SIZE] * 4,
        _INT,
        *[_POINTER] * 2,
        _INT,
    ],
    "weir_attend": [_POINTER, _SIZE, *[_POINTER] * 4, *[_SIZE] * 6, _INT, _POINTER, _INT],
}
# Widths that the kernels step through without a rest.
STEP = 16


class Kernels:
    """One loaded library.

    Attributes:
        level: the instructions that it uses.
    """

    def __init__(self, path: Path, level: Level) -> None:
        """Load it.

        Raises:
            KernelsUnavailable: it cannot be loaded, or the system denies its registers.
        """
        try:
            library = ctypes.CDLL(str(path))
            for name, arguments in _SIGNATURES.items():
                function = getattr(library, name)
                function.argtypes, function.restype = arguments, None
            denied = library.weir_enable_tiles()
        except (OSError, AttributeError) as error:
            raise KernelsUnavailable(f"{path} cannot be loaded: {error}") from error
        if denied:
            raise KernelsUnavailable("the system denies the processor's tile registers")
        self.level = level
        self.library = library

    def rms_norm(self, x: torch.Tensor, gain: torch.Tensor, eps: float) -> torch.Tensor:
        """x / sqrt(mean(x^2) + eps) * gain; x is [rows, width], width % 16 == 0."""
        width = gain.shape[0]
        check_step("width", width)
        check(gain, "gain", width)
        check(x, "x", x.shape[0], width)
        out = torch.empty_like(x)
        self.library.weir_rms_norm(
            x.data_ptr(), gain.data_ptr(), eps, *x.shape, out.data_ptr(), torch.get_num_threads()
        )
        return out

    def rotate(self, x: torch.Tensor, cos: torch.Tensor, signed_sin: torch.Tensor) -> None:
        """Rotate [rows, heads, dim] in place, dim % 16 == 0; see `models.rope.rotate`.

        Args:
            x: a part of wider rows, whose heads lie one after the other.
            cos, signed_sin: [rows, 1, dim].
        """
        rows, heads, dim = x.shape
        check_step("head_dim", dim)
        check_heads(x, "x")
        check(cos, "cos", rows, 1, dim)
        check(signed_sin, "signed_sin", rows, 1, dim)
        self.library.weir_rotate(
            x.data_ptr(),
            x.stride(0),
            cos.data_ptr(),
            signed_sin.data_ptr(),
            rows,
            heads,
            dim,
            torch.get_num_threads(),
        )


def check(tensor: torch.Tensor, name: str, *shape: int, dtype: torch.dtype = torch.float32) -> None:
    """Raise InvalidField unless the tensor is contiguous, on CPU, of that shape and dtype."""
    if tensor.shape != shape or tensor.dtype != dtype or not tensor.is_contiguous():
        given = f"{tensor.dtype} {list(tensor.shape)}, strides {list(tensor.stride())}"
        raise InvalidField(name, given, f"contiguous {dtype} {list(shape)}")
    if tensor.device.type != "cpu":
        raise InvalidField(name, tensor.device, "on the CPU")


def check_heads(tensor: torch.Tensor, name: str) -> None:
    """Raise InvalidField unless it is fp32 [rows, heads, dim] whose rows alone have gaps."""
    if tensor.dtype != torch.float32 or tensor.stride()[1:] != (tensor.shape[2], 1):
        given = f"{tensor.dtype}, strides {list(tensor.stride())}"
        raise InvalidField(name, given, "torch.float32, heads one after the other")


def check_step(name: str, width: int) -> None:
    """Raise InvalidField unless the width is a positive multiple of 16."""
    if width < 1 or width % STEP:
        raise InvalidField(name, width, f"a multiple of {STEP}, at least {STEP}")
