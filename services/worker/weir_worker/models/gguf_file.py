"""Reads GGUF files: metadata and tensors, every length checked against the file's end.

Format: ggml's docs/gguf.md, versions 2 and 3, little-endian. The `gguf` package supplies
the constants and the dequantisation; its own reader takes seconds for a vocabulary and trusts
the lengths that it reads.
"""

import math
import mmap
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType
from gguf.quants import dequantize

from weir_core.model_folder import ModelFileError

_SCALARS = {
    0: "B",
    1: "b",
    2: "H",
    3: "h",
    4: "I",
    5: "i",
    6: "f",
    7: "?",
    10: "Q",
    11: "q",
    12: "d",
}
_STRING, _ARRAY = 8, 9
_MOST_DIMENSIONS = 4
_MOST_ENTRIES = 1 << 20
_MOST_ARRAY = 1 << 23
_MOST_STRING = 1 << 26
_PART_BYTES = 32 << 20


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """Where one tensor lies: shape outermost first, offset in bytes from the file's start."""

    name: str
    shape: tuple[int, ...]
    kind: GGMLQuantizationType
    offset: int
    bytes: int

    @property
    def count(self) -> int:
        """Its numbers."""
        return math.prod(self.shape)

    @property
    def rows(self) -> int:
        """Rows of the last dimension; a quantised block never crosses their ends."""
        return math.prod(self.shape[:-1])


class GgufFile:
    """An open GGUF file.

    Attributes:
        metadata: key -> str, int, float, bool or list of those.
        tensors: name -> where it lies.
    """

    def __init__(self, path: Path, data: mmap.mmap) -> None:
        self.path = path
        self.metadata: dict[str, Any] = {}
        self.tensors: dict[str, TensorInfo] = {}
        self._data = data
        self._at = 0
        self._read_header()

    def tensor(self, name: str) -> npt.NDArray[np.float32]:
        """The tensor in fp32, shape outermost first; do not change it.

        Raises:
            ModelFileError: there is none of that name, or its quantisation is not supported.
        """
        info = self._info(name)
        return self._values(info, 0, info.rows).reshape(info.shape)

    def parts(self, name: str, multiple: int = 1) -> Iterator[npt.NDArray[np.float32]]:
        """The tensor in fp32 by rows [rows, last dimension], some 32 MiB at a time.

        Args:
            name: of the tensor.
            multiple: of which the number of rows of each part is one.

        Raises:
            ModelFileError: as for `tensor`.
        """
        info = self._info(name)
        step = max(1, _PART_BYTES // (4 * info.shape[-1] * multiple)) * multiple
        for first in range(0, info.rows, step):
            yield self._values(info, first, min(first + step, info.rows))

    def _info(self, name: str) -> TensorInfo:
        info = self.tensors.get(name)
        if info is None:
            raise ModelFileError(self.path, f"tensor {name} is missing")
        return info

    def _values(self, info: TensorInfo, first: int, last: int) -> npt.NDArray[np.float32]:
        size = info.bytes // info.rows
        raw = np.frombuffer(self._data, np.uint8, (last - first) * size, info.offset + first * size)
        try:
            values = dequantize(raw.reshape(last - first, size), info.kind)
        except NotImplementedError as error:
            raise ModelFileError(
                self.path, f"tensor {info.name} has the unsupported type {info.kind.name}"
            ) from error
        return values.astype(np.float32, copy=False)

    def _read_header(self) -> None:
        if len(self._data) < 4 or self._data[:4] != b"GGUF":
            raise ModelFileError(self.path, "not a GGUF file: it does not begin with GGUF")
        self._at = 4
        version = self._scalar("I")
        if version not in (2, 3):
            raise ModelFileError(self.path, f"GGUF version {version}; supported are 2 and 3")
        tensors, entries = (
            self._count("tensors", _MOST_ENTRIES),
            self._count("metadata entries", _MOST_ENTRIES),
        )
        for _ in range(entries):
            key = self._string()
            if key in self.metadata:
                raise ModelFileError(self.path, f"damaged: two entries are named {key!r:.80}")
            self.metadata[key] = self._value(self._scalar("I"))
        self._read_tensor_infos(tensors)

    def _read_tensor_infos(self, count: int) -> None:
        found = [self._tensor_info() for _ in range(count)]
        parts = self.metadata.get("split.count", 1)
        if parts not in (0, 1):
            problem = f"split.count is {parts!r:.80}; files in parts are not read: merge them"
            raise ModelFileError(self.path, problem)
        alignment = self.metadata.get("general.alignment", 32)
        if not isinstance(alignment, int) or alignment < 1:
            raise ModelFileError(self.path, f"general.alignment is {alignment!r}")
        start = -(-self._at // alignment) * alignment
        for name, shape, kind, offset in found:
            self._place(TensorInfo(name, shape, kind, start + offset, _bytes(shape, kind)))
        for first, second in pairwise(sorted(self.tensors.values(), key=lambda t: t.offset)):
            if first.offset + first.bytes > second.offset:
                problem = f"damaged: tensors {first.name} and {second.name} overlap"
                raise ModelFileError(self.path, problem)

    def _place(self, info: TensorInfo) -> None:
        end, size = info.offset + info.bytes, len(self._data)
        if end > size:
            raise ModelFileError(
                self.path,
                f"truncated or damaged: tensor {info.name} {list(info.shape)} ends at byte {end}, "
                f"the file at {size}",
            )
        if info.name in self.tensors:
            raise ModelFileError(self.path, f"damaged: two tensors are named {info.name}")
        self.tensors[info.name] = info

    def _tensor_info(self) -> tuple[str, tuple[int, ...], GGMLQuantizationType, int]:
        name, rank = self._string(), self._scalar("I")
        if not 1 <= rank <= _MOST_DIMENSIONS:
            raise ModelFileError(self.path, f"damaged: tensor {name!r} has {rank} dimensions")
        shape = tuple(self._scalar("Q") for _ in range(rank))[::-1]
        code, offset = self._scalar("I"), self._scalar("Q")
        try:
            kind = GGMLQuantizationType(code)
        except ValueError as error:
            raise ModelFileError(self.path, f"tensor {name} has the unknown type {code}") from error
        if min(shape) < 1 or shape[-1] % GGML_QUANT_SIZES[kind][0]:
            raise ModelFileError(
                self.path, f"damaged: tensor {name} of type {kind.name} has shape {list(shape)}"
            )
        return name, shape, kind, offset

    def _value(self, kind: int) -> Any:
        if kind == _STRING:
            return self._string()
        if kind == _ARRAY:
            return self._array()
        if kind not in _SCALARS:
            raise ModelFileError(self.path, f"damaged: metadata value of unknown type {kind}")
        return self._scalar(_SCALARS[kind])

    def _array(self) -> list[Any]:
        kind, count = self._scalar("I"), self._count("array entries", _MOST_ARRAY)
        if kind == _STRING:
            self._demand(count * 8)
            return [self._string() for _ in range(count)]
        if kind not in _SCALARS:
            raise ModelFileError(self.path, f"damaged: metadata array of type {kind}")
        return self._unpack(count, _SCALARS[kind])

    def _string(self) -> str:
        length = self._count("bytes of a string", _MOST_STRING)
        self._demand(length)
        start, self._at = self._at, self._at + length
        try:
            return str(self._data[start : self._at], "utf-8")
        except UnicodeDecodeError as error:
            raise ModelFileError(self.path, f"damaged: bad UTF-8 at byte {start}") from error

    def _scalar(self, code: str) -> Any:
        return self._unpack(1, code)[0]

    def _unpack(self, count: int, code: str) -> list[Any]:
        self._demand(count * struct.calcsize("<" + code))
        layout = f"<{count}{code}"
        values = struct.unpack_from(layout, self._data, self._at)
        self._at += struct.calcsize(layout)
        return list(values)

    def _count(self, what: str, most: int) -> int:
        start, count = self._at, int(self._scalar("Q"))
        if count > most:
            raise ModelFileError(
                self.path, f"damaged: it claims {count} {what} at byte {start}; at most {most}"
            )
        return count

    def _demand(self, size: int) -> None:
        left = len(self._data) - self._at
        if size > left:
            raise ModelFileError(
                self.path,
                f"truncated or damaged: {size} bytes announced at byte {self._at}, {left} left",
            )


def open_gguf(path: Path) -> GgufFile:
    """Map the file for reading, as long as somebody holds the result.

    Raises:
        ModelFileError: it cannot be read, is no GGUF file, or is truncated or damaged.
    """
    try:
        with path.open("rb") as file:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError) as error:  # mmap of an empty file is a ValueError
        raise ModelFileError(path, f"cannot be read: {error}") from error
    return GgufFile(path, data)


def _bytes(shape: tuple[int, ...], kind: GGMLQuantizationType) -> int:
    block, size = GGML_QUANT_SIZES[kind]
    return math.prod(shape) // block * size
