"""The MLP's gate by the compiled kernels, with the transform that may stand behind it."""

import ctypes

import torch

from weir_core.errors import InvalidField
from weir_worker.kernels.library import Kernels, check, check_step
from weir_worker.linear import Hadamard

_MOST_BASE = 128


class _Hadamard(ctypes.Structure):
    _fields_ = (
        ("base", ctypes.c_int64),
        ("power", ctypes.c_int64),
        ("matrix", ctypes.c_void_p),
    )


class NativeGate:
    """silu(gate) * up, then a Hadamard transform if there is one; rows are independent.

    Attributes:
        hadamard_address: of the transform, for other native code, as long as this lives; or None.
    """

    def __init__(self, kernels: Kernels, hadamard: Hadamard | None = None) -> None:
        """Keep the transform's matrix.

        Raises:
            InvalidField: its base is above 128.
        """
        self._apply = kernels.library.weir_silu_mul
        self._multiple = 1
        self.hadamard_address: int | None = None
        if hadamard is None:
            return
        base, power = len(hadamard.base), len(hadamard.power)
        if base > _MOST_BASE:
            raise InvalidField("base", base, f"at most {_MOST_BASE}")
        self._multiple = base * power
        self._matrix = hadamard.base.T.float().contiguous()  # the structure holds its address
        self._hadamard = _Hadamard(base, power, self._matrix.data_ptr())
        self.hadamard_address = ctypes.addressof(self._hadamard)

    def __call__(self, gate_up: torch.Tensor) -> torch.Tensor:
        """Map [rows, 2 * width], gate first, to [rows, width]; width % 16 == 0."""
        rows, width = gate_up.shape[0], gate_up.shape[1] // 2
        check_step("width", width)
        check(gate_up, "gate_up", rows, 2 * width)
        if width % self._multiple:
            raise InvalidField("width", width, f"a multiple of {self._multiple}")
        out = torch.empty(rows, width)
        threads = torch.get_num_threads()
        self._apply(gate_up.data_ptr(), rows, width, self.hadamard_address, out.data_ptr(), threads)
        return out
