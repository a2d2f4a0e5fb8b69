"""Writes a safetensors file one part of a tensor at a time.

The library's own `save_file` needs all tensors in memory at once; a converter must not.
Format: 8 bytes little-endian header length, JSON header, data
(https://github.com/huggingface/safetensors, "Format").
"""

import json
import math
import struct
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

_ALIGNMENT = 64


def write_safetensors(
    path: Path,
    shapes: Mapping[str, tuple[int, ...]],
    parts: Callable[[str], Iterable[npt.NDArray[np.float32]]],
) -> None:
    """Write fp32 tensors of the given shapes, asking for the parts of each in turn, row by row."""
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, shape in shapes.items():
        start, end = end, end + 4 * math.prod(shape)
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    text += b" " * (-(8 + len(text)) % _ALIGNMENT)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for name in shapes:
            for part in parts(name):
                file.write(np.ascontiguousarray(part, "<f4").data)
