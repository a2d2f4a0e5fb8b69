"""Linear layers by the compiled kernels: a row's result is the same in every batch."""

import ctypes

import torch

from weir_core.errors import InvalidField
from weir_worker.kernels.library import Kernels, check
from weir_worker.kernels.processor import Level
from weir_worker.linear import Int8Weight

_STRIP = 32  # outputs that the kernels compute side by side
_DEPTH = 64  # inputs are padded to a multiple of this for int8
_WIDE_STRIP, _WIDE_DEPTH = 16, 16  # the same for 16-bit activations
_LINE = 64
_MOST_INPUTS = 65_536  # beyond, sums of products of bytes might leave 32 bits


class NativeLinear:
    """y = x W^T + b in fp32, W [out, in] packed once."""

    def __init__(
        self, kernels: Kernels, weight: torch.Tensor, bias: torch.Tensor | None = None
    ) -> None:
        """Pack W; the given tensor is not kept.

        Raises:
            InvalidField: a tensor is not fp32 on CPU, or the bias does not fit.
        """
        weight = weight.contiguous()
        self._out, self._in = weight.shape
        check(weight, "weight", self._out, self._in)
        if bias is not None:
            check(bias, "bias", self._out)
        self._bias = bias
        self._bias_address = None if bias is None else bias.data_ptr()
        self._packed = torch.empty(_padded(self._out, _STRIP), self._in)
        kernels.library.weir_pack_fp32(
            weight.data_ptr(),
            self._out,
            self._in,
            self._packed.data_ptr(),
            torch.get_num_threads(),
        )
        self._apply = kernels.library.weir_linear_fp32

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """Map [rows, in] to [rows, out]."""
        rows = x.shape[0]
        check(x, "x", rows, self._in)
        y = torch.empty(rows, self._out)
        self._apply(
            x.data_ptr(),
            self._packed.data_ptr(),
            self._bias_address,
            rows,
            self._out,
            self._in,
            y.data_ptr(),
            torch.get_num_threads(),
        )
        return y


class _Int8Weight(ctypes.Structure):
    _fields_ = (
        ("out", ctypes.c_int64),
        ("in", ctypes.c_int64),
        ("packed", ctypes.c_void_p),
        ("offsets", ctypes.c_void_p),
        ("scales", ctypes.c_void_p),
        ("bias", ctypes.c_void_p),
        ("fine", ctypes.c_int64),
    )


class NativeInt8Linear:
    """y = x W^T + b with 8-bit weights scaled by output and 8-bit activations scaled by row.

    With `fine` activations have a second term of 8 bits: what the first rounds off. Sums are of
    integers and exact. A row that holds NaN or infinity gives NaN.

    Attributes:
        shape: of the weight, [out, in].
        address: of the packed weight, for other native code; valid as long as this lives.
    """

    def __init__(
        self,
        kernels: Kernels,
        weight: Int8Weight,
        bias: torch.Tensor | None = None,
        *,
        fine: bool = False,
    ) -> None:
        """Pack the weight; the given tensors are not kept. The bias is fp32 [out].

        Raises:
            InvalidField: a tensor is of another kind, or out of its bounds.
        """
        levels, scales = weight.levels.contiguous(), weight.scales
        self.shape = levels.shape
        out, inputs = levels.shape
        _check_levels(levels)
        check(scales, "scales", out)
        if bias is not None:
            check(bias, "bias", out)
        outputs = _padded(out, _STRIP)
        packed = _aligned(outputs * _padded(inputs, _DEPTH))
        offsets = torch.empty(outputs, dtype=torch.int32)
        kernels.library.weir_pack_int8(
            levels.data_ptr(),
            out,
            inputs,
            packed.data_ptr(),
            offsets.data_ptr(),
            torch.get_num_threads(),
        )
        parts = (packed, offsets, _extended(scales, outputs), _extended(bias, outputs))
        self._parts = parts  # the structure holds their addresses
        addresses = (None if part is None else part.data_ptr() for part in parts)
        self._weight = _Int8Weight(out, inputs, *addresses, fine)
        self.address = ctypes.addressof(self._weight)
        self._apply = kernels.library.weir_linear_int8

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """Map [rows, in] to [rows, out]."""
        rows = x.shape[0]
        check(x, "x", rows, self.shape[1])
        y = torch.empty(rows, self.shape[0])
        self._apply(self.address, x.data_ptr(), rows, y.data_ptr(), torch.get_num_threads())
        return y


class _WideWeight(ctypes.Structure):
    _fields_ = (
        ("out", ctypes.c_int64),
        ("in", ctypes.c_int64),
        ("packed", ctypes.c_void_p),
        ("scales", ctypes.c_void_p),
        ("bias", ctypes.c_void_p),
    )


class NativeWideLinear:
    """y = x W^T + b with 8-bit weights scaled by output and 16-bit activations scaled by row.

    For processors without a multiply-add of bytes; see `csrc/linear_w8a16.h`. Sums are of
    integers and exact. A row that holds NaN or infinity gives NaN.

    Attributes:
        shape: of the weight, [out, in].
        address: of the packed weight, for other native code; valid as long as this lives.
    """

    def __init__(
        self, kernels: Kernels, weight: Int8Weight, bias: torch.Tensor | None = None
    ) -> None:
        """Pack the weight; the given tensors are not kept. The bias is fp32 [out].

        Raises:
            InvalidField: a tensor is of another kind, or out of its bounds.
        """
        levels, scales = weight.levels.contiguous(), weight.scales
        self.shape = levels.shape
        out, inputs = levels.shape
        _check_levels(levels)
        check(scales, "scales", out)
        if bias is not None:
            check(bias, "bias", out)
        outputs = _padded(out, _WIDE_STRIP)
        packed = _aligned(outputs * _padded(inputs, _WIDE_DEPTH))
        kernels.library.weir_pack_w8a16(
            levels.data_ptr(), out, inputs, packed.data_ptr(), torch.get_num_threads()
        )
        parts = (packed, _extended(scales, outputs), _extended(bias, outputs))
        self._parts = parts  # the structure holds their addresses
        addresses = (None if part is None else part.data_ptr() for part in parts)
        self._weight = _WideWeight(out, inputs, *addresses)
        self.address = ctypes.addressof(self._weight)
        self._apply = kernels.library.weir_linear_w8a16

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """Map [rows, in] to [rows, out]."""
        rows = x.shape[0]
        check(x, "x", rows, self.shape[1])
        y = torch.empty(rows, self.shape[0])
        self._apply(self.address, x.data_ptr(), rows, y.data_ptr(), torch.get_num_threads())
        return y


# The 8-bit layers that a processor of each level is fastest with.
FASTEST: dict[Level, type[NativeInt8Linear | NativeWideLinear]] = {
    # Bytes are multiplied into 32 bits by VNNI alone.
    "avx2": NativeWideLinear,
    "avx512": NativeInt8Linear,
    "amx": NativeInt8Linear,
}


def _aligned(size: int) -> torch.Tensor:
    """Bytes that begin with a line of the processor's cache."""
    room = torch.empty(size + _LINE, dtype=torch.int8)
    skipped = -room.data_ptr() % _LINE
    return room[skipped : skipped + size]


def _check_levels(levels: torch.Tensor) -> None:
    check(levels, "levels", *levels.shape, dtype=torch.int8)
    if not 1 <= levels.shape[1] <= _MOST_INPUTS:
        raise InvalidField("levels", list(levels.shape), f"1 to {_MOST_INPUTS} inputs")
    if levels.numel() and int(levels.min()) < -127:
        raise InvalidField("levels", int(levels.min()), "at least -127")


def _extended(values: torch.Tensor | None, length: int) -> torch.Tensor | None:
    if values is None:
        return None
    return torch.cat([values, values.new_zeros(length - len(values))])


def _padded(size: int, multiple: int) -> int:
    return -(-size // multiple) * multiple
