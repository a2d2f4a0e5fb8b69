"""A linear layer over weights that oneDNN has laid out for its own kernels."""

import torch
from torch.nn import functional

_PROBES = (1, 2, 3, 4, 8)
_PROBE_ROWS = 16


class PackedLinear:
    """y = x W^T + b in fp32 on CPU, W [out, in] packed once.

    Faster than the plain kernel from 4 rows on, and its sums do not depend on the number of
    rows: oneDNN has other kernels for very few rows (with AVX-512 for one row of a wide input),
    so that fewer rows than it takes to get the usual ones are filled up. How many these are is
    found out for each weight; the engine's self-test checks the whole model.
    """

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None = None) -> None:
        self._weight = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous())
        self._bias = bias
        self._apply = torch.ops.mkldnn._linear_pointwise.default
        self._least_rows = self._find_least_rows(weight.shape[1])

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """Map [rows, in] to [rows, out]."""
        rows = x.shape[0]
        if rows >= self._least_rows:
            return self._product(x)
        return self._product(functional.pad(x, (0, 0, 0, self._least_rows - rows)))[:rows]

    @staticmethod
    def supports(weight: torch.Tensor) -> bool:
        """Whether this build of torch can pack it: the operators are private to torch."""
        return (
            weight.device.type == "cpu"
            and weight.dtype == torch.float32
            and torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
            and hasattr(torch.ops.mkldnn, "_reorder_linear_weight")
            and hasattr(torch.ops.mkldnn, "_linear_pointwise")
        )

    def _product(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self._apply(x, self._weight, self._bias, "none", [], "")
        return y

    def _find_least_rows(self, width: int) -> int:
        """The fewest rows from which on a row has the bits that it has among many."""
        x = torch.arange(_PROBE_ROWS * width, dtype=torch.float32).sin_().view(_PROBE_ROWS, width)
        whole = self._product(x)
        least = 1
        for rows in _PROBES:
            if not torch.equal(self._product(x[:rows]), whole[:rows]):
                least = 2 * rows if rows > 2 else rows + 1
        return least
