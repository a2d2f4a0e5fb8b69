"""What the quantised types of ggml mean, value by value, from their definition in ggml-quants.c.

Slow and plain; independent of the `gguf` package, which the product uses.
"""

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class GgmlType:
    """A type.

    Attributes:
        size: bytes of a block.
        half_floats: where in a block its scales lie.
        block: the values of a block.
    """

    size: int
    half_floats: tuple[int, ...]
    block: Callable[[bytes], Iterator[float]]

    def values(self, raw: bytes) -> npt.NDArray[np.float32]:
        blocks = (raw[at : at + self.size] for at in range(0, len(raw), self.size))
        return np.array([value for block in blocks for value in self.block(block)], np.float32)


def _half(raw: bytes, at: int) -> float:
    (value,) = struct.unpack_from("<e", raw, at)
    return float(value)


def _q4_0(raw: bytes) -> Iterator[float]:
    d = _half(raw, 0)
    yield from (((byte & 15) - 8) * d for byte in raw[2:])
    yield from (((byte >> 4) - 8) * d for byte in raw[2:])


def _q4_1(raw: bytes) -> Iterator[float]:
    d, m = _half(raw, 0), _half(raw, 2)
    yield from ((byte & 15) * d + m for byte in raw[4:])
    yield from ((byte >> 4) * d + m for byte in raw[4:])


def _five_bits(raw: bytes, at: int) -> Iterator[int]:
    (high,) = struct.unpack_from("<I", raw, at)
    low = [byte & 15 for byte in raw[at + 4 :]] + [byte >> 4 for byte in raw[at + 4 :]]
    return (low[j] | ((high >> j & 1) << 4) for j in range(32))


def _q5_0(raw: bytes) -> Iterator[float]:
    return ((q - 16) * _half(raw, 0) for q in _five_bits(raw, 2))


def _q5_1(raw: bytes) -> Iterator[float]:
    return (q * _half(raw, 0) + _half(raw, 2) for q in _five_bits(raw, 4))


def _q8_0(raw: bytes) -> Iterator[float]:
    return (q * _half(raw, 0) for q in struct.unpack_from("<32b", raw, 2))


def _scale_and_minimum(scales: bytes, j: int) -> tuple[int, int]:
    if j < 4:
        return scales[j] & 63, scales[j + 4] & 63
    return (
        scales[j + 4] & 15 | (scales[j - 4] >> 6) << 4,
        scales[j + 4] >> 4 | (scales[j] >> 6) << 4,
    )


def _k(raw: bytes, low: bytes, high: bytes) -> Iterator[float]:
    """Q4_K and Q5_K: eight runs of 32, each with a scale and a minimum of 6 bits."""
    d, dmin = _half(raw, 0), _half(raw, 2)
    for run in range(8):
        scale, minimum = _scale_and_minimum(raw[4:16], run)
        for at in range(32):
            q = low[run // 2 * 32 + at] >> 4 * (run % 2) & 15
            q += 16 * (high[at] >> run & 1)
            yield d * scale * q - dmin * minimum


def _q4_k(raw: bytes) -> Iterator[float]:
    return _k(raw, raw[16:], bytes(32))


def _q5_k(raw: bytes) -> Iterator[float]:
    return _k(raw, raw[48:], raw[16:48])


def _q6_k(raw: bytes) -> Iterator[float]:
    low, high, d = raw[:128], raw[128:192], _half(raw, 208)
    scales = struct.unpack_from("<16b", raw, 192)
    for half in range(2):
        for quarter in range(4):
            for at in range(32):
                byte = low[64 * half + at + 32 * (quarter % 2)]
                q = byte >> 4 * (quarter // 2) & 15
                q |= (high[32 * half + at] >> 2 * quarter & 3) << 4
                yield d * scales[8 * half + 2 * quarter + at // 16] * (q - 32)


def _f16(raw: bytes) -> Iterator[float]:
    yield _half(raw, 0)


def _bf16(raw: bytes) -> Iterator[float]:
    yield float(struct.unpack("<f", b"\0\0" + raw)[0])


GGML = {
    "F16": GgmlType(2, (0,), _f16),
    "BF16": GgmlType(2, (0,), _bf16),
    "Q4_0": GgmlType(18, (0,), _q4_0),
    "Q4_1": GgmlType(20, (0, 2), _q4_1),
    "Q5_0": GgmlType(22, (0,), _q5_0),
    "Q5_1": GgmlType(24, (0, 2), _q5_1),
    "Q8_0": GgmlType(34, (0,), _q8_0),
    "Q4_K": GgmlType(144, (0, 2), _q4_k),
    "Q5_K": GgmlType(176, (0, 2), _q5_k),
    "Q6_K": GgmlType(210, (208,), _q6_k),
}
